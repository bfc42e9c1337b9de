-- `ofParty` has the queues whose receivers the party has named, and `ofAll` those of all parties. Answers 0, or which limit is reached: 1
-- the party's, 2 that of all. A queue counts as long as it holds callbacks, failed ones included: it is then among the newest again.
--@include "../redis/now.lua"
-- How many names are looked at to find some that no longer count.
local LOOKED_AT = 50
local counted = now - ARGV.countedMs
local function takes(key, max)
  if redis.call('ZSCORE', key, ARGV.queue) or redis.call('ZCARD', key) < max then return true end
  for _, queue in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', counted, 'LIMIT', 0, LOOKED_AT)) do
    if redis.call('SISMEMBER', KEYS.registry, queue) == 1 then redis.call('ZADD', key, now, queue)
    else redis.call('ZREM', key, queue) end
  end
  return redis.call('ZCARD', key) < max
end
if not takes(KEYS.ofParty, tonumber(ARGV.partyMax)) then return 1 end
if not takes(KEYS.ofAll, tonumber(ARGV.allMax)) then return 2 end
redis.call('ZADD', KEYS.ofParty, now, ARGV.queue)
redis.call('PEXPIRE', KEYS.ofParty, ARGV.countedMs)
redis.call('ZADD', KEYS.ofAll, now, ARGV.queue)
return 0
