-- `queues` are the job's. Answers 1 if the job was paused. When it was resumed is kept in `resumed`, for a week after the last one.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
--@include "../redis/audit/add-act.lua"
if redis.call('HEXISTS', KEYS.job, 'paused') == 0 then return 0 end
addAct(ARGV.line)
redis.call('HDEL', KEYS.job, 'paused', 'by', 'reason')
if redis.call('HLEN', KEYS.resumed) >= RESUMED.max then redis.call('DEL', KEYS.resumed) end
redis.call('HSET', KEYS.resumed, ARGV.name, string.format('%.0f', now))
redis.call('PEXPIRE', KEYS.resumed, RESUMED.keptMs)
if redis.call('EXISTS', KEYS.job) == 0 then redis.call('SREM', KEYS.jobs, ARGV.name) end
--@include "./awake-queues.lua"
awakeQueues(FIRST.queues)
return 1
