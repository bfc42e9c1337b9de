-- Adds a call to the list of forgotten calls. The script that writes a block of the history leaves these calls out
-- (write-block.lua). `line` is the beginning of the call's line in a block.
--@include "../../redis/now.lua"
redis.call('ZADD', KEYS.forgotten, 'NX', now, ARGV.line)
redis.call('ZREMRANGEBYSCORE', KEYS.forgotten, '-inf', now - FORGOTTEN_LISTED_MS)
redis.call('PEXPIRE', KEYS.forgotten, FORGOTTEN_LISTED_MS)
