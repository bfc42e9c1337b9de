-- Answers the keys, the newest first.
--@include "../../redis/now.lua"
return redis.call('ZREVRANGEBYSCORE', KEYS.callbackKeys, '+inf', now - ARGV.keptMs)
