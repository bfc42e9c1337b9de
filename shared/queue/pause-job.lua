-- Pauses a job. Returns 1 if the job was not paused before.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
--@include "../redis/audit/add-act.lua"
--@include "./new-intent.lua"
if redis.call('HEXISTS', KEYS.job, 'paused') == 1 then return 0 end
addAct(ARGV.line)
redis.call('HSET', KEYS.job, 'paused', ARGV.now, 'by', ARGV.by, 'reason', ARGV.reason)
redis.call('SADD', KEYS.jobs, ARGV.name)
newIntent(KEYS.intents, now)
return 1
