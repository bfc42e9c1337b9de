-- Copies the operators' intents from partition 0 into this partition. An intent is a pause of a job or the state of an
-- endpoint (intents.ts). `version` is their version in partition 0. If the partition already has a higher version, nothing
-- changes. An intent with a `setting` is the setting of an endpoint; any other is a pause. A pause or setting that is missing
-- in the arguments has ended. Held calls of enabled endpoints are released step by step. Returns 1 if some are left.
--@include "../redis/even-if-full.lua"
local prefix = ARGV.prefix .. ':'
--@include "./batch.lua"
--@include "./note-resumed.lua"
--@include "./release-held.lua"
if tonumber(redis.call('HGET', KEYS.intents, 'version') or 0) > tonumber(ARGV.version) then return 0 end

local paused, set = {}, {}
for i = FIRST.intents, #ARGV, WIDTH.intents do
  local name, at, by, reason, setting = unpack(ARGV, i, i + WIDTH.intents - 1)
  if setting ~= '' then
    set[name] = true
    redis.call('HSET', KEYS.endpoints, name, setting)
  else
    paused[name] = true
    redis.call('HSET', prefix .. 'job:' .. name, 'paused', at, 'by', by, 'reason', reason)
    redis.call('SADD', KEYS.jobs, name)
  end
end

local function namesBehind(gateName)
  local receiver = receiverOf({gate = gateName})
  if receiver then return redis.call('SMEMBERS', prefix .. 'receiver:' .. receiver) end
  if gateName ~= CALLBACKS_GATE then return otherQueues({gate = gateName}) end
  local found = {}
  for _, name in ipairs(redis.call('SMEMBERS', prefix .. 'queues')) do
    if string.sub(name, 1, #CALLBACKS_GATE + 1) == CALLBACKS_GATE .. '/' then found[#found + 1] = name end
  end
  return found
end

local function resume(gateName)
  local job = prefix .. 'job:' .. gateName
  if redis.call('HDEL', job, 'paused', 'by', 'reason') == 0 then return end
  noteResumed(KEYS.resumed, gateName, now)
  if redis.call('EXISTS', job) == 0 then redis.call('SREM', KEYS.jobs, gateName) end
  for _, name in ipairs(namesBehind(gateName)) do
    if redis.call('SISMEMBER', prefix .. 'queues', name) == 1 then awake(wake, name) end
  end
end
for _, name in ipairs(redis.call('SMEMBERS', KEYS.jobs)) do
  if not paused[name] then resume(name) end
end

-- An endpoint keeps its setting until its last held call is released. Until then new calls are held too, so that the order
-- is kept.
local left = 0
for _, path in ipairs(redis.call('HKEYS', KEYS.endpoints)) do
  if not set[path] and left == 0 then
    left = releaseHeld(path)
    if left == 0 then redis.call('HDEL', KEYS.endpoints, path) end
  end
end
endBatch()
redis.call('HSET', KEYS.intents, 'version', ARGV.version, 'left', left)
return math.min(left, 1)
