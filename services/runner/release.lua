-- Releases a claimed long call, so that it can be claimed again after `pauseMs`. Returns 1, or 0 if the call now belongs to
-- another runner.
--@include "../../shared/redis/now.lua"
if redis.call('HGET', KEYS.call, 'owner') ~= ARGV.owner then return 0 end
redis.call('HDEL', KEYS.call, 'owner', 'lease')
redis.call('HSET', KEYS.call, 'st', 'STORED', 'attempts', ARGV.attempts)
redis.call('ZADD', KEYS.due, now + ARGV.pauseMs, ARGV.id)
return 1
