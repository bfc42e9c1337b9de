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
-- Adds a callback to its queue, where one that is there is left alone.
local function queueCallback(callback)
  local q = queueOf(callback.gate, callback.queue)
  local grown = addCall(q, callback.id, callback.data)
  if grown > 0 then redis.call('HINCRBY', prefix .. 'bytes', q.name, grown) end
  added(q, q.length)
end
