-- KEYS ...keys
-- ARGV prefix, gate, queue, ...words
-- A call stays as failed, unless another worker has told of a 2xx since its record said so. Its callback is queued, if it has one
-- (callbacks.ts). If it fails again after a replay, its receiver is told again, under the same id.
--@include "./surround.lua"
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
if redis.call('HGET', prefix .. 'call:' .. id, 'st') == 'INJECTED' then dropFailed(q, id)
elseif prepared then
  --@include "./callbacks.lua"
  local callback = callbackOf(cjson.decode(prepared), 'call.failed', own)
  if callback then
    redis.call('DEL', prefix .. 'call:' .. callback.id)
    queueCallback(callback)
  end
end
tell(q)
updateInHand(q)
return reply
