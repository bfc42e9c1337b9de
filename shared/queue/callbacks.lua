-- Defines two functions for the callback of a call that has ended, after frame.lua.

-- Finds the callback that was prepared for this ending (callbacks.ts), or makes it of what BullMQ's hash of the call, `own`, has, if nobody
-- has read that. Returns nil if the call has none.
local function callbackOf(prepared, ending, own)
  if prepared.queue then
    local id, data = unpack(prepared[ending])
    return {id = id, data = data, queue = prepared.queue, gate = prepared.gate}
  end
  local stored = redis.call('HGET', own, 'data') or ''
  local at = string.find(stored, ',"callback":{', 1, true)
  local to = at and string.match(stored, '%b{}', at)
  local ok, target = pcall(cjson.decode, to)
  if not ok or type(target.receiver) ~= 'string' then return nil end
  local data = string.gsub(prepared.data, '"to":null', function() return '"to":' .. to end)
  local queue = CALLBACKS_GATE .. '/' .. prepared.job .. '/' .. target.receiver
  return {id = prepared.id, data = data, queue = queue, gate = CALLBACKS_GATE .. '/' .. target.receiver}
end

--@include "./bullmqs-add.lua"
local bullmqsAdd
-- Adds a callback to its queue, where one that is there is left alone.
local function queueCallback(callback)
  bullmqsAdd = bullmqsAdd or newBullmqsAdd()
  local q = queueOf(callback.gate, callback.queue)
  local options = {
    jobId = callback.id, attempts = JOB_OPTIONS.attempts, removeOnFail = JOB_OPTIONS.removeOnFail
  }
  local waited = redis.call('LLEN', q.wait)
  local args = {q.jobs, callback.id, JOB_NAME, timestamp}
  bullmqsAdd(keysToAdd(q), {cmsgpack.pack(args), callback.data, cmsgpack.pack(options)})
  local waits = redis.call('LLEN', q.wait)
  if waits > waited then redis.call('HINCRBY', prefix .. 'bytes', q.name, #callback.data) end
  added(q, waits)
end
