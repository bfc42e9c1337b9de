-- Uses up a nonce. Returns nothing at the first use, otherwise the reason why the nonce is not valid. Redis remembers the nonce until
-- `keptUntil` (unix ms). After `keptUntil`, the nonce has expired, even if the gateway's clock is behind. The write happens even if Redis
-- is nearly full, because the client has paid for the result.
--@include "../../../shared/redis/even-if-full.lua"
--@include "../../../shared/redis/now.lua"
local ms = ARGV.keptUntil - now
if ms <= 0 then return 'has expired' end
return not redis.call('SET', KEYS.used, '', 'NX', 'PX', ms) and 'was used before'
