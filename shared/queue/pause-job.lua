-- KEYS job, jobs
-- ARGV name, now, by, reason
-- Answers 1 if the job was not paused.
--@include "../redis/even-if-full.lua"
if redis.call('HEXISTS', KEYS.job, 'paused') == 1 then return 0 end
redis.call('HSET', KEYS.job, 'paused', ARGV.now, 'by', ARGV.by, 'reason', ARGV.reason)
redis.call('SADD', KEYS.jobs, ARGV.name)
return 1
