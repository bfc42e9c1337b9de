-- Adds calls to their queues, unless they are already known. `data` is a call in the form in which it is stored. `by`
-- is the id of the request that brings the call; it is empty for a call without a delivery id. `heldAt` is the path of
-- the call's endpoint if the gateway's cache shows the endpoint as held, otherwise empty. A call with `heldAt` is held,
-- unless an operator has enabled the endpoint since the gateway filled its cache. Returns for each call NEW, CONFLICT,
-- the known call's state and job, or ERROR and the error. An error of one call does not affect the others. The record
-- of a call is written after the call is added. So if an error stops the script in between, there is no record that
-- says QUEUED for a call that is in no queue.
local prefix = ARGV.prefix .. ':'
--@include "../../shared/queue/add.lua"

-- Adds a call that waits until an operator enables its endpoint (shared/queue/endpoints.ts).
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
  -- Compares only the beginning of the hash, because older releases stored the whole hash.
  if st and bh and string.sub(bh, 1, #bodyHash) ~= bodyHash then return 'CONFLICT' end
  if st then return known == by and 'NEW' or st .. ' ' .. (job or '') end
  addOrHold(gateName, name, id, data, heldAt)
  redis.call('HSET', record, 'st', 'QUEUED', 'bh', bodyHash, 'w', windowMs, 'at', now, 'by', by,
    'jb', gateName)
  return 'NEW'
end
--@include "../../shared/queue/each-alone.lua"
return eachAlone(enqueue, FIRST.calls, WIDTH.calls)
