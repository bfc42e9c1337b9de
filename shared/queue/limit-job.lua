-- Sets the limits of a job in one partition. `queues` are the job's queues. If `permit` is set, partition 0 has the limits,
-- and workers need its permits to take calls (frame.lua).
--@include "../redis/even-if-full.lua"
--@include "./set-limits.lua"
setLimits(KEYS.job, KEYS.taken)
if ARGV.permit == '' then redis.call('HDEL', KEYS.job, 'permit') else redis.call('HSET', KEYS.job, 'permit', ARGV.permit) end
if redis.call('EXISTS', KEYS.job) == 1 then redis.call('SADD', KEYS.jobs, ARGV.name) else redis.call('SREM', KEYS.jobs, ARGV.name) end
--@include "./awake-queues.lua"
awakeQueues(FIRST.queues)
