-- Reserves a caller's nonce for a call until `keptUntil` (unix ms). Returns the reason why the claim must refuse the nonce, or ''. If the
-- nonce is already reserved for this call, the reservation is written again: the first write, by another gateway, may not survive a
-- failover.
--@include "../../../shared/redis/now.lua"
local ms, by = ARGV.keptUntil - now, redis.call('GET', KEYS.nonce)
if by and by ~= ARGV.id then return 'NONCE_USED' end
if ms <= 0 then return 'NONCE_EXPIRED' end
redis.call('SET', KEYS.nonce, ARGV.id, 'PX', ms)
return ''
