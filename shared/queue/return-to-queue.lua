-- Returns a call to the waiting calls of its queue, because its worker never received the call (lost-takes.ts). `take` is the
-- number of the lost take. If the call was taken again since then, nothing changes. If the call's lock has expired, there is
-- no token to compare with the worker's, so this check is left out.
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
