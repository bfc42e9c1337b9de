-- Moves a call to the failed calls, unless its record has become INJECTED because another worker reported a 2xx. Also queues
-- the call's callback, if it has one (callbacks.ts). If the call fails again after a replay, its receiver gets the callback
-- again, with the same id.
--@include "./wrapper-start.lua"
--@include "./call-log.lua"
--@include "./is-ended.lua"
words[2] = timestamp
local function bullmq(KEYS, ARGV)
--@include "bullmq:moveToFinished-14"
end
local reply = bullmq(KEYS, words)
if type(reply) == 'number' and reply < 0 then return reply end
local id = words[1]
local own = q.jobs .. id
local prepared = redis.call('HGET', own, PREPARED_FIELD)
if prepared then redis.call('HDEL', own, PREPARED_FIELD) end
local st = redis.pcall('HGET', prefix .. 'call:' .. id, 'st')
if type(st) == 'table' then st = 'UNREADABLE' end
if st == 'INJECTED' then dropFailed(q.name, id)
else
  -- An earlier script has set the record to FAILED, at a slightly different time. Record and queue must have the same time of
  -- failure.
  if st == 'FAILED' then redis.call('HSET', prefix .. 'call:' .. id, 'at', timestamp) end
  if not isEnded(st) then
    local take = tonumber(redis.call('HGET', own, 'ats') or 0)
    logFailed(prefix .. 'attempts:' .. id, prefix .. 'history-off', take, timestamp, words[4])
  end
  if prepared then
    --@include "./callbacks.lua"
    local callback = callbackOf(cjson.decode(prepared), 'call.failed', own)
    if callback then
      redis.call('DEL', prefix .. 'call:' .. callback.id)
      -- BullMQ counts the takes of a new callback from 1, so the callback's log must be empty. An earlier callback with this
      -- id may have left entries.
      if redis.call('EXISTS', prefix .. callback.queue .. ':' .. callback.id) == 0 then
        redis.call('DEL', prefix .. 'attempts:' .. callback.id)
      end
      queueCallback(callback)
    end
  end
end
wakeProducers(q)
updateInFlight(q)
return reply
