-- Adds an entry for a refused request to those of its path. Then deletes the oldest entries until the limits of number,
-- bytes and age hold. Adds nothing and returns 0 while the key `historyOff` exists. A gateway sets it while Redis is
-- nearly full and history must be deleted.
if redis.call('EXISTS', KEYS.historyOff) == 1 then return 0 end
local bytes = 0
if redis.call('EXISTS', KEYS.entries) == 1 then bytes = tonumber(redis.call('HGET', KEYS.bytes, ARGV.path) or 0) end
redis.call('ZADD', KEYS.entries, ARGV.at, ARGV.entry)
bytes = bytes + #ARGV.entry
local count = redis.call('ZCARD', KEYS.entries)
local too_old = ARGV.at - ARGV.keptMs
local oldest = redis.call('ZRANGE', KEYS.entries, 0, 0, 'WITHSCORES')
while count > tonumber(ARGV.entriesMax) or bytes > tonumber(ARGV.bytesMax) or tonumber(oldest[2]) < too_old do
  redis.call('ZREM', KEYS.entries, oldest[1])
  bytes, count = bytes - #oldest[1], count - 1
  if count == 0 then break end
  oldest = redis.call('ZRANGE', KEYS.entries, 0, 0, 'WITHSCORES')
end
redis.call('HSET', KEYS.bytes, ARGV.path, bytes)
redis.call('PEXPIRE', KEYS.entries, ARGV.keptMs)
redis.call('PEXPIRE', KEYS.bytes, ARGV.keptMs)
return 1
