-- Adds calls as stored to their queues, unless they are known. `by` is empty if a repeat is not recognised. `heldAt` is the path of an
-- endpoint that was held a moment ago, or empty: its calls are held unless it was enabled since. Answers for each call NEW, CONFLICT,
-- the state and job found, or ERROR and the error: one that fails fails alone. The record comes after the add, so that it never says QUEUED
-- of a call that is not there.
local prefix = ARGV.prefix .. ':'
--@include "../../shared/queue/add.lua"

-- Adds a call that waits until its endpoint is enabled (shared/queue/endpoints.ts).
local function hold(gateName, name, id, data, path)
  local q = opened(gateName, name)
  local grown = addCall(q, id, data)
  if grown == 0 then return end
  q.bytes, q.length = q.bytes + grown, q.length - 1
  redis.call('LREM', q.wait, 1, id)
  redis.call('ZADD', q.jobs .. 'delayed', heldScore, id)
  redis.call('RPUSH', prefix .. 'held:' .. path, name .. ' ' .. id)
  register(q)
end

local function addOrHold(gateName, name, id, data, heldAt)
  local isHeld = heldAt ~= '' and redis.call('HEXISTS', prefix .. 'endpoints', heldAt) == 1
  if isHeld then hold(gateName, name, id, data, heldAt) else add(gateName, name, id, data) end
end

local function enqueue(gateName, name, id, data, by, bodyHash, windowMs, heldAt)
  if by == '' then
    addOrHold(gateName, name, id, data, heldAt)
    return 'NEW'
  end
  local record = prefix .. 'call:' .. id
  local st, bh, known, job = unpack(redis.call('HMGET', record, 'st', 'bh', 'by', 'jb'))
  -- An older release kept the whole hash.
  if st and bh and string.sub(bh, 1, #bodyHash) ~= bodyHash then return 'CONFLICT' end
  if st then return known == by and 'NEW' or st .. ' ' .. (job or '') end
  addOrHold(gateName, name, id, data, heldAt)
  redis.call('HSET', record, 'st', 'QUEUED', 'bh', bodyHash, 'w', windowMs, 'at', now, 'by', by,
    'jb', gateName)
  return 'NEW'
end
--@include "../../shared/queue/each-alone.lua"
return eachAlone(enqueue, FIRST.calls, WIDTH.calls)
