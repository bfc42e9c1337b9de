-- Reserves a caller's nonce for a call until `keptUntil` (unix ms). Returns '', or the reason why the claim must refuse the
-- nonce. The nonce may already be reserved for this call by another gateway, whose write may not survive a failover. So the
-- reservation is written again then, and is proven by this write.
--@include "../../../shared/redis/now.lua"
local ms, by = ARGV.keptUntil - now, redis.call('GET', KEYS.nonce)
if by and by ~= ARGV.id then return 'NONCE_USED' end
if ms <= 0 then return 'NONCE_EXPIRED' end
redis.call('SET', KEYS.nonce, ARGV.id, 'PX', ms)
return ''
