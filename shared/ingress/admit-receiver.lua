-- Counts the queue of the callbacks to a receiver that a request has named, against two limits. `ofOwner` holds the
-- queues whose receivers this owner (an endpoint or a payer) has named, and `ofAll` those of all owners. Returns 1 if
-- the owner's limit is reached, 2 if the limit for all owners is reached, otherwise 0. A queue counts for at least
-- ARGV.countedMs. When a limit is reached, queues that were counted longer ago are checked. Those that hold no
-- callbacks, not even failed ones, are removed. The others count for another ARGV.countedMs.
--@include "../redis/now.lua"
-- Limit on the old entries that one call of `hasCapacity` checks.
local CHECKED_MAX = 50
local counted = now - ARGV.countedMs
local function hasCapacity(key, max)
  if redis.call('ZSCORE', key, ARGV.queue) or redis.call('ZCARD', key) < max then return true end
  for _, queue in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', counted, 'LIMIT', 0, CHECKED_MAX)) do
    if redis.call('SISMEMBER', KEYS.registry, queue) == 1 then redis.call('ZADD', key, now, queue)
    else redis.call('ZREM', key, queue) end
  end
  return redis.call('ZCARD', key) < max
end
if not hasCapacity(KEYS.ofOwner, tonumber(ARGV.ownerMax)) then return 1 end
if not hasCapacity(KEYS.ofAll, tonumber(ARGV.allMax)) then return 2 end
redis.call('ZADD', KEYS.ofOwner, now, ARGV.queue)
redis.call('PEXPIRE', KEYS.ofOwner, ARGV.countedMs)
redis.call('ZADD', KEYS.ofAll, now, ARGV.queue)
return 0
