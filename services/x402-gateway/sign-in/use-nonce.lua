-- Uses up a nonce of a sign-in. Returns nothing at its first use, and otherwise the reason why the nonce is not valid. Redis
-- remembers the nonce until `keptUntil` (unix ms). After that time the nonce has expired in any case, even by the clock of a
-- gateway that is behind. The script runs even if Redis is nearly full, because the client has paid for the result.
--@include "../../../shared/redis/even-if-full.lua"
--@include "../../../shared/redis/now.lua"
local ms = ARGV.keptUntil - now
if ms <= 0 then return 'has expired' end
return not redis.call('SET', KEYS.used, '', 'NX', 'PX', ms) and 'was used before'
