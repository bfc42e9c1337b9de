-- KEYS job, jobs, registry, wake
-- ARGV name, ...queues
-- `queues` are the job's. Answers 1 if the job was paused.
--@include "../redis/even-if-full.lua"
if redis.call('HDEL', KEYS.job, 'paused', 'by', 'reason') == 0 then return 0 end
if redis.call('EXISTS', KEYS.job) == 0 then redis.call('SREM', KEYS.jobs, ARGV.name) end
--@include "./awake-queues.lua"
awakeQueues(FIRST.queues)
return 1
