-- Moves a failed call back to the waiting calls, and logs who replayed it and why (`note`). A call that failed because
-- processes died with it is next taken by a worker that has no other call. If the call has ended in the meantime, its log may
-- have expired. A new entry would create the log again, without an expiry, so none is written.
--@include "./wrapper-start.lua"
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
wakeProducers(q)
return reply
