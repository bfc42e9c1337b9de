-- Defines two functions for the callback of an ended call. Needs the functions of frame.lua.

-- Returns the callback for this ending, which the producer has prepared (callbacks.ts). If the producer could not read the
-- call, the prepared callback has no receiver. The receiver is then read from `own`, BullMQ's hash of the call. Returns nil
-- if the call has no callback.
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
-- Adds a callback to its queue. If the queue already has it, nothing changes.
local function queueCallback(callback)
  local q = queueOf(callback.gate, callback.queue)
  local grown = addCall(q, callback.id, callback.data)
  if grown > 0 then redis.call('HINCRBY', prefix .. 'bytes', q.name, grown) end
  added(q, q.length)
end
