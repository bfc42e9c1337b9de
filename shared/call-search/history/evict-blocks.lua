-- Defines `evictBlocks`, which deletes the oldest blocks until `isEnough(calls, bytes, newest)` is true, and returns their
-- number. One run deletes at most 100 blocks, which makes enough room for a new block. The next run deletes further expired
-- blocks. `newest` is the newest time of the oldest block that is left. `prefix` is the prefix of the blocks' keys.
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
