-- Defines functions that keep sets of values: the runner's answers (services/runner), results (shared/call/results), and the
-- delivered webhooks of an endpoint (shared/call/kept). A value is kept for a time, and a set has a limit of bytes.
--
-- Each set has an `index`, a sorted set of `<bytes> <id>` by expiry, and a `count`, the sum of these bytes. The functions
-- change both with the values. An expired value is counted until a script evicts it, so the count is never too low. A script
-- that includes this file must define `now`, and may keep values of only one set.

-- Memory that Redis needs for a kept value in addition to the value's bytes, as measured: the key of 34 bytes, its expiry,
-- and the entry in the index.
local OVERHEAD_BYTES = 320
-- Maximum number of values that a new value evicts. If that does not free enough, the new value is not kept.
local STEPS_MAX = 100

-- Evicts expired values, and then the oldest ones until the rest takes at most `bytesMax`. One call evicts at most STEPS_MAX
-- values. Returns the number of evicted values, and the size of the others. Its first write needs no memory, so a full Redis
-- runs it.
local function evict(index, count, prefix, bytesMax)
  local kept, gone = tonumber(redis.call('GET', count) or 0), 0
  while gone < STEPS_MAX do
    local oldest = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
    if not oldest[1] or (tonumber(oldest[2]) > now and kept <= bytesMax) then break end
    local bytes, id = string.match(oldest[1], '^(%d+) (.*)$')
    redis.call('ZREM', index, oldest[1])
    -- If the stored size differs from the one in the entry, a newer value has replaced the old one under the same key. The
    -- newer value has its own entry, and stays.
    if redis.call('STRLEN', prefix .. id) == bytes - OVERHEAD_BYTES then redis.call('DEL', prefix .. id) end
    kept, gone = kept - bytes, gone + 1
  end
  if gone > 0 then redis.call('SET', count, kept, 'KEEPTTL') end
  return gone, kept
end

-- Keeps a value for `ms` under `key`, which ends with `id`. Returns whether the value is kept. It is not kept if it is empty,
-- or if an eviction does not free enough space. The first call in a script always evicts expired values. Later calls evict
-- only if the new value would exceed `bytesMax`.
local kept
local function keep(id, value, ms, bytesMax, key, index, count)
  bytesMax = tonumber(bytesMax)
  local bytes = value ~= '' and #value + OVERHEAD_BYTES or 0
  if bytes > bytesMax then bytes = 0 end
  if not kept or kept + bytes > bytesMax then
    local _
    _, kept = evict(index, count, string.sub(key, 1, -#id - 1), bytesMax - bytes)
  end
  if bytes == 0 or kept + bytes > bytesMax then return false end
  redis.call('SET', key, value, 'PX', ms)
  if redis.call('ZADD', index, now + ms, bytes .. ' ' .. id) == 1 then
    redis.call('INCRBY', count, bytes)
    kept = kept + bytes
  end
  return true
end

-- Removes the value under `key` and subtracts it from the count. Returns the number of freed bytes.
local function drop(id, key, index, count)
  local bytes = redis.call('STRLEN', key)
  if bytes == 0 then return 0 end
  bytes = bytes + OVERHEAD_BYTES
  redis.call('DEL', key)
  if redis.call('ZREM', index, bytes .. ' ' .. id) == 0 then return 0 end
  redis.call('DECRBY', count, bytes)
  return bytes
end
