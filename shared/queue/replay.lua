-- KEYS ...keys
-- ARGV prefix, gate, queue, ...words
-- A failed call waits again. One that has ended processes is taken alone.
--@include "./surround.lua"
local function bullmq(KEYS, ARGV)
--@include "bullmq:reprocessJob-9"
end
local reply = bullmq(KEYS, words)
if type(reply) == 'number' and reply < 0 then return reply end
local job = q.jobs .. words[1]
if tonumber(redis.call('HGET', job, 'stc') or 0) > CRASHES.untilAlone then
  redis.call('HSET', job, 'stc', CRASHES.untilAlone)
end
tell(q)
return reply
