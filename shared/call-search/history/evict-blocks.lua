-- Defines `evictBlocks`, which deletes the oldest blocks until `isEnough(calls, bytes, newest)` is true. It deletes at most
-- 100 blocks each time. This is enough for a new block, and further expired blocks are deleted the next time. Returns the
-- number of deleted blocks. `prefix` is the prefix of the blocks' keys.
local function evictBlocks(index, size, prefix, isEnough)
  local calls, bytes, gone = tonumber(redis.call('HGET', size, 'calls') or 0), tonumber(redis.call('HGET', size, 'bytes') or 0), 0
  while gone < 100 do
    local oldest = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
    if not oldest[1] or isEnough(calls, bytes, tonumber(oldest[2])) then break end
    local itsCalls, itsBytes, id = string.match(oldest[1], '^(%d+) (%d+) (.*)$')
    redis.call('ZREM', index, oldest[1])
    redis.call('UNLINK', prefix .. id)
    calls, bytes, gone = calls - itsCalls, bytes - itsBytes, gone + 1
  end
  if gone > 0 then redis.call('HSET', size, 'calls', calls, 'bytes', bytes) end
  return gone
end
