-- Records the block up to which a search of the chain found no use of the payment's authorization.
--@include "../redis/even-if-full.lua"
if redis.call('EXISTS', KEYS.payment) == 1 then redis.call('HSET', KEYS.payment, 'searched', ARGV.block) end
