-- Reserves a caller's nonce for a call until `keptUntil` (unix ms). Answers why the claim must refuse it, or ''. A reservation for this call
-- is written again, since the write of another gateway may not survive a failover.
--@include "../../../shared/redis/now.lua"
local ms, by = ARGV.keptUntil - now, redis.call('GET', KEYS.nonce)
if by and by ~= ARGV.id then return 'NONCE_USED' end
if ms <= 0 then return 'NONCE_EXPIRED' end
redis.call('SET', KEYS.nonce, ARGV.id, 'PX', ms)
return ''
