-- Defines functions for a script that handles a batch of items, such as calls to add. The script must define `prefix`. It
-- gets the queue of an item from `opened`, and calls `endBatch()` at its end, which writes the changes of all items together.
--@include "./frame.lua"

local queues = {}
local function opened(gateName, name)
  local q = queues[name]
  if not q then
    q = queueOf(gateName, name)
    q.bytes = 0
    queues[name] = q
  end
  return q
end

-- Adds each queue's change in bytes to the stored size of its calls.
local function writeBytes()
  local names, changes = {}, {}
  for name, q in pairs(queues) do
    if q.bytes ~= 0 then names[#names + 1], changes[#changes + 1] = name, q.bytes end
  end
  local key = prefix .. 'bytes'
  if #names < 3 then
    for i, name in ipairs(names) do redis.call('HINCRBY', key, name, changes[i]) end
    return
  end
  local written = {}
  for i, bytes in ipairs(redis.call('HMGET', key, unpack(names))) do
    written[#written + 1] = names[i]
    written[#written + 1] = string.format('%.0f', (tonumber(bytes) or 0) + changes[i])
  end
  redis.call('HSET', key, unpack(written))
end

-- Collects the ids of changed calls, so that watchers get one message about all of these calls.
local changed, changes = {}, 0
local function noteChange(id)
  changes = changes + 1
  changed[changes] = id
end

-- Writes the changes of all items, once for each queue. Errors of these writes are ignored, because all items have already
-- run, and their answers must still reach the client.
local function endBatch()
  pcall(writeBytes)
  for _, q in pairs(queues) do
    if q.wakes then pcall(wakeProducers, q) end
  end
  if changes > 0 then publishChange(table.concat(changed, ' ')) end
end
