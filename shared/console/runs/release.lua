-- The run waits again, for anybody. Stores the progress unless it is empty. Does nothing if somebody else holds the
-- run.
--@include "../../redis/even-if-full.lua"
--@include "../../redis/now.lua"
if redis.call('HGET', KEYS.run, 'holder') ~= ARGV.holder then return 0 end
redis.call('HDEL', KEYS.run, 'holder')
redis.call('HSET', KEYS.run, 'st', 'waiting')
if ARGV.progress ~= '' then redis.call('HSET', KEYS.run, 'progress', ARGV.progress) end
redis.call('ZADD', KEYS.open, now, ARGV.id)
return 1
