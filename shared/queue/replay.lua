-- A failed call waits again, and its log says who replayed it and why (`note`). One that has ended processes is taken alone. The log of a
-- call that has ended by now may have expired, and does not begin again.
--@include "./surround.lua"
--@include "./call-log.lua"
--@include "./is-ended.lua"
local function bullmq(KEYS, ARGV)
--@include "bullmq:reprocessJob-9"
end
local reply = bullmq(KEYS, words)
if type(reply) == 'number' and reply < 0 then return reply end
local id = words[1]
if not isEnded(redis.call('HGET', prefix .. 'call:' .. id, 'st')) then
  logReplay(prefix .. 'attempts:' .. id, prefix .. 'history-off', timestamp, ARGV.note)
end
local job = q.jobs .. id
if tonumber(redis.call('HGET', job, 'stc') or 0) > CRASHES.untilAlone then
  redis.call('HSET', job, 'stc', CRASHES.untilAlone)
end
tell(q)
return reply
