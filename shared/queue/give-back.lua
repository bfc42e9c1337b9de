-- A call waits again that a worker has and does not know of (lost-takes.ts), unless it was taken again since: `take` counts how often it was
-- taken. Its lock may have run out meanwhile, and is then not asked for.
--@include "./surround.lua"
local function bullmq(KEYS, ARGV)
--@include "bullmq:moveJobFromActiveToWait-9"
end
local job = words[3]
if redis.call('HGET', job, 'ats') ~= ARGV.take then return -3 end
if redis.call('EXISTS', job .. ':lock') == 0 then words[2] = '0' end
local reply = bullmq(KEYS, words)
if reply < 0 then return reply end
tell(q)
updateInHand(q)
return reply
