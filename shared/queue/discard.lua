-- A call, whose key is the first, leaves its queue. It may be in hand, so that a place gets free.
--@include "./surround.lua"
local function bullmq(KEYS, ARGV)
--@include "bullmq:removeJob-2"
end
local bytes = redis.call('HSTRLEN', KEYS[1], 'data')
local reply = bullmq(KEYS, words)
if type(reply) == 'number' and reply ~= 1 then return reply end
redis.call('HINCRBY', prefix .. 'bytes', q.name, -bytes)
tell(q)
updateInHand(q)
return reply
