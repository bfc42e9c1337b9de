-- Records the block up to which no use of the authorization was found.
--@include "../redis/even-if-full.lua"
if redis.call('EXISTS', KEYS.payment) == 1 then redis.call('HSET', KEYS.payment, 'searched', ARGV.block) end
