-- `queues` are the job's, and an empty limit is none. A new period begins at once: the calls counted so far were
-- counted for the one before.
--@include "../redis/even-if-full.lua"
if (redis.call('HGET', KEYS.job, 'duration') or '') ~= ARGV.duration then redis.call('DEL', KEYS.taken) end
for field, value in pairs({concurrency = ARGV.concurrency, max = ARGV.max, duration = ARGV.duration}) do
  if value == '' then redis.call('HDEL', KEYS.job, field) else redis.call('HSET', KEYS.job, field, value) end
end
if redis.call('EXISTS', KEYS.job) == 1 then redis.call('SADD', KEYS.jobs, ARGV.name) else redis.call('SREM', KEYS.jobs, ARGV.name) end
--@include "./awake-queues.lua"
awakeQueues(FIRST.queues)
