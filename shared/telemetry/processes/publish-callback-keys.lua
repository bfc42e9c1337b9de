--@include "../../redis/even-if-full.lua"
--@include "../../redis/now.lua"
for i = FIRST.publicKeys, #ARGV do redis.call('ZADD', KEYS.callbackKeys, now, ARGV[i]) end
redis.call('ZREMRANGEBYSCORE', KEYS.callbackKeys, '-inf', now - ARGV.keptMs)
