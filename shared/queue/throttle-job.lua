-- Throttles a job for `ms`, unless it has a longer throttle. `queues` are the job's queues.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
local till = math.max(now + ARGV.ms, tonumber(redis.call('HGET', KEYS.job, 'throttled') or 0))
redis.call('HSET', KEYS.job, 'throttled', string.format('%.0f', till))
for i = FIRST.queues, #ARGV do
  if redis.call('ZREM', KEYS.wake, ARGV[i]) == 1 then redis.call('ZADD', KEYS.due, 'LT', till, ARGV[i]) end
end
