-- A call in hand waits again.
--@include "./surround.lua"
local function bullmq(KEYS, ARGV)
--@include "bullmq:moveJobFromActiveToWait-9"
end
local reply = bullmq(KEYS, words)
if type(reply) == 'number' and reply < 0 then return reply end
tell(q)
updateInHand(q)
return reply
