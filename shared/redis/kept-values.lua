-- Values that are kept for a time, and together take at most a number of bytes: the runner's answers (services/runner), results
-- (shared/call/results), and the delivered webhooks of an endpoint (shared/call/kept). Each set of them has an index, a zset of `<bytes> <id>` by the time when the value goes, and a count of
-- these bytes. Both are written in the same step in which a value comes or goes. A value whose time is up is counted until some script
-- lets go of it, so the count is never too low. A script keeps values of one set, and defines `now`.

-- What Redis needs for a kept value beside its bytes: the key and its expiry, and the entry of the index, for a key of 34 bytes. Measured.
local OVERHEAD_BYTES = 320
-- A value that comes lets go of at most this many others; if that makes no room, it is not kept itself.
local STEPS_MAX = 100

-- Lets go of the oldest values while their time is up or all together take more than `bytesMax`, in a bounded number of steps. Returns how
-- many went and what the others take. Its first write needs no memory, so a full Redis takes it.
local function letGo(index, count, prefix, bytesMax)
  local kept, gone = tonumber(redis.call('GET', count) or 0), 0
  while gone < STEPS_MAX do
    local oldest = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
    if not oldest[1] or (tonumber(oldest[2]) > now and kept <= bytesMax) then break end
    local bytes, id = string.match(oldest[1], '^(%d+) (.*)$')
    redis.call('ZREM', index, oldest[1])
    -- A value that has come in place of another has an entry of its own, unless it is as large.
    if redis.call('STRLEN', prefix .. id) == bytes - OVERHEAD_BYTES then redis.call('DEL', prefix .. id) end
    kept, gone = kept - bytes, gone + 1
  end
  if gone > 0 then redis.call('SET', count, kept, 'KEEPTTL') end
  return gone, kept
end

-- Keeps a value under `key`, which ends with `id`, for a time, if there is room for it or can be made; an empty value is not kept. The
-- first keep of a script lets go of values whose time is up. Returns whether the value is kept.
local kept
local function keep(id, value, ms, bytesMax, key, index, count)
  bytesMax = tonumber(bytesMax)
  local bytes = value ~= '' and #value + OVERHEAD_BYTES or 0
  if bytes > bytesMax then bytes = 0 end
  if not kept or kept + bytes > bytesMax then
    local _
    _, kept = letGo(index, count, string.sub(key, 1, -#id - 1), bytesMax - bytes)
  end
  if bytes == 0 or kept + bytes > bytesMax then return false end
  redis.call('SET', key, value, 'PX', ms)
  if redis.call('ZADD', index, now + ms, bytes .. ' ' .. id) == 1 then
    redis.call('INCRBY', count, bytes)
    kept = kept + bytes
  end
  return true
end

-- Removes the value under `key` and no longer counts it. Returns how many bytes that makes free.
local function drop(id, key, index, count)
  local bytes = redis.call('STRLEN', key)
  if bytes == 0 then return 0 end
  bytes = bytes + OVERHEAD_BYTES
  redis.call('DEL', key)
  if redis.call('ZREM', index, bytes .. ' ' .. id) == 0 then return 0 end
  redis.call('DECRBY', count, bytes)
  return bytes
end
