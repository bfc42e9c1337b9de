-- Answers nothing to the first who uses a nonce, and to others why it is good for nothing. It is remembered until `keptUntil`, unix ms. One
-- that can no longer be remembered has expired, whatever the gateway's clock said. It stands for a result that was paid for, so it has room.
--@include "../../../shared/redis/even-if-full.lua"
--@include "../../../shared/redis/now.lua"
local ms = ARGV.keptUntil - now
if ms <= 0 then return 'has expired' end
return not redis.call('SET', KEYS.used, '', 'NX', 'PX', ms) and 'was used before'
