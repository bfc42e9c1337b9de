-- Sets the run back to waiting, so that any process can take it. Stores the progress unless it is empty. Does nothing
-- if another process holds the run.
--@include "./while-held.lua"
redis.call('HDEL', KEYS.run, 'holder')
redis.call('HSET', KEYS.run, 'st', 'waiting')
redis.call('ZADD', KEYS.open, now, ARGV.id)
return 1
