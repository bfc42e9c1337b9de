-- Resumes a job; `queues` are the job's queues. Returns 1 if the job was paused.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
--@include "../redis/audit/add-act.lua"
--@include "./note-resumed.lua"
--@include "./new-intent.lua"
if redis.call('HEXISTS', KEYS.job, 'paused') == 0 then return 0 end
addAct(ARGV.line)
redis.call('HDEL', KEYS.job, 'paused', 'by', 'reason')
noteResumed(KEYS.resumed, ARGV.name, now)
newIntent(KEYS.intents, now)
if redis.call('EXISTS', KEYS.job) == 0 then redis.call('SREM', KEYS.jobs, ARGV.name) end
--@include "./awake-queues.lua"
awakeQueues(FIRST.queues)
return 1
