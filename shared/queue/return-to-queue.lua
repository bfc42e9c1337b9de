-- Returns a call to the waiting calls of its queue, because its worker never received the call (lost-takes.ts). `take` is
-- the call's number of takes when it was lost: if the call was taken again since, nothing changes. If the call's lock has
-- expired, the worker's token is not checked.
--@include "./wrapper-start.lua"
local function bullmq(KEYS, ARGV)
--@include "bullmq:moveJobFromActiveToWait-9"
end
local job = words[3]
if redis.call('HGET', job, 'ats') ~= ARGV.take then return -3 end
if redis.call('EXISTS', job .. ':lock') == 0 then words[2] = '0' end
local reply = bullmq(KEYS, words)
if reply < 0 then return reply end
wakeProducers(q)
updateInFlight(q)
return reply
