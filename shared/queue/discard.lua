-- Removes a call from its queue; the first key is the key of the call. The call may be in flight, so this may free a slot.
--@include "./wrapper-start.lua"
local function bullmq(KEYS, ARGV)
--@include "bullmq:removeJob-2"
end
local bytes = redis.call('HSTRLEN', KEYS[1], 'data')
local reply = bullmq(KEYS, words)
if type(reply) == 'number' and reply ~= 1 then return reply end
redis.call('HINCRBY', prefix .. 'bytes', q.name, -bytes)
wakeProducers(q)
updateInFlight(q)
return reply
