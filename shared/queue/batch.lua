-- The queues of a batch, for a script that knows `prefix`. `endBatch()` writes what all items together have changed.
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

-- By how much the stored calls of each queue have grown or shrunk.
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

-- The calls that watchers are told of, in one message for all.
local changed, changes = {}, 0
local function hasChanged(id)
  changes = changes + 1
  changed[changes] = id
end

-- Writes once for each queue what the items have changed. What fails here makes no item fail, since all of them have run.
local function endBatch()
  pcall(writeBytes)
  for _, q in pairs(queues) do
    if q.tells then pcall(tell, q) end
  end
  if changes > 0 then tellChange(table.concat(changed, ' ')) end
end
