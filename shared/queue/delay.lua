-- Moves a call in flight to the delayed calls.
--@include "./wrapper-start.lua"
words[2] = timestamp
local function bullmq(KEYS, ARGV)
--@include "bullmq:moveToDelayed-11"
end
local reply = bullmq(KEYS, words)
if type(reply) == 'number' and reply < 0 then return reply end
local ms = words[5]
redis.call('ZADD', due, 'LT', now + ms, q.name)
wakeProducers(q)
updateInFlight(q)
return reply
