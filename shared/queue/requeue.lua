-- Moves a call in flight back to the head of the waiting calls, without counting the attempt.
--@include "./wrapper-start.lua"
local function bullmq(KEYS, ARGV)
--@include "bullmq:moveJobFromActiveToWait-9"
end
local reply = bullmq(KEYS, words)
if type(reply) == 'number' and reply < 0 then return reply end
wakeProducers(q)
updateInFlight(q)
return reply
