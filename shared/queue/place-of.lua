-- Defines functions that find a call. `placeIn(prefix, queue, id)` returns the queue and BullMQ's state of the call, if that
-- queue holds the call. `placeOf(registry, prefix, id)` searches all queues. The prefix ends with a colon.
--@include "./held.lua"
local function placeIn(prefix, queue, id)
  local q = prefix .. queue .. ':'
  if redis.call('EXISTS', q .. id) == 0 then return nil end
  if redis.call('ZSCORE', q .. 'failed', id) then return {queue, 'failed'} end
  local score = redis.call('ZSCORE', q .. 'delayed', id)
  if score then return {queue, tonumber(score) < tonumber(heldScore) and 'delayed' or 'held'} end
  if redis.call('LPOS', q .. 'active', id) then return {queue, 'active'} end
  return {queue, 'waiting'}
end

local function placeOf(registry, prefix, id)
  for _, queue in ipairs(redis.call('SMEMBERS', registry)) do
    local found = placeIn(prefix, queue, id)
    if found then return found end
  end
end
