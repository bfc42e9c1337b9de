-- The run waits again, for anybody. Stores the progress unless it is empty. Does nothing if somebody else holds the
-- run.
--@include "./while-held.lua"
redis.call('HDEL', KEYS.run, 'holder')
redis.call('HSET', KEYS.run, 'st', 'waiting')
redis.call('ZADD', KEYS.open, now, ARGV.id)
return 1
