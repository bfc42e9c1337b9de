-- Releases a claimed call for another run. Returns 0 if the call belongs to another runner, else 1.
--@include "../../shared/redis/now.lua"
if redis.call('HGET', KEYS.call, 'owner') ~= ARGV.owner then return 0 end
redis.call('HDEL', KEYS.call, 'owner', 'lease')
redis.call('HSET', KEYS.call, 'st', 'STORED', 'attempts', ARGV.attempts)
redis.call('ZADD', KEYS.due, now + ARGV.pauseMs, ARGV.id)
return 1
