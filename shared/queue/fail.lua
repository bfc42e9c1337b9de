-- A call stays as failed, unless another worker has told of a 2xx since its record said so. Its callback is queued, if it has one
-- (callbacks.ts). If it fails again after a replay, its receiver is told again, under the same id.
--@include "./surround.lua"
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
  -- Its record has said so for a moment already. From now on the call has one time of failure.
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
      -- A new job counts its takes from 1 again, and so needs a log of its own.
      if redis.call('EXISTS', prefix .. callback.queue .. ':' .. callback.id) == 0 then
        redis.call('DEL', prefix .. 'attempts:' .. callback.id)
      end
      queueCallback(callback)
    end
  end
end
tell(q)
updateInHand(q)
return reply
