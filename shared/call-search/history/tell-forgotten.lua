-- `line` is how the line of the call begins.
--@include "../../redis/now.lua"
redis.call('ZADD', KEYS.forgotten, 'NX', now, ARGV.line)
redis.call('ZREMRANGEBYSCORE', KEYS.forgotten, '-inf', now - FORGOTTEN_TOLD_MS)
redis.call('PEXPIRE', KEYS.forgotten, FORGOTTEN_TOLD_MS)
