-- Lists a forgotten call, so that writers of the history leave it out. `line` is the beginning of the call's line.
--@include "../../redis/now.lua"
redis.call('ZADD', KEYS.forgotten, 'NX', now, ARGV.line)
redis.call('ZREMRANGEBYSCORE', KEYS.forgotten, '-inf', now - FORGOTTEN_LISTED_MS)
redis.call('PEXPIRE', KEYS.forgotten, FORGOTTEN_LISTED_MS)
