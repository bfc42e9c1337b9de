-- Releases permits. `unusedOf` is 0 if a call was taken with the permit. Otherwise it is the end of the rate period in which
-- the permit was counted, and the script subtracts the permit from that period's count. If the limits now allow another call,
-- the script reserves a permit for a moment for the source that has waited longest. A source is a queue of one partition.
-- Returns for each released permit that source, or ''.
--@include "../../../shared/redis/even-if-full.lua"
--@include "../../../shared/redis/now.lua"
local function undoRateCount(taken, duration, periodEnd)
  if not duration or periodEnd == 0 then return false end
  local ms = redis.call('PTTL', taken)
  if ms <= 0 or math.abs(now + ms - periodEnd) > tonumber(duration) / 2 then return false end
  redis.call('INCRBY', taken, -1)
  return true
end

local function release(limits, permits, waiters, taken, id, periodEnd)
  if redis.call('ZREM', permits, id) == 0 then return '' end
  local concurrency, duration = unpack(redis.call('HMGET', limits, 'concurrency', 'duration'))
  local isFree = undoRateCount(taken, duration, tonumber(periodEnd))
  if concurrency then
    redis.call('ZREMRANGEBYSCORE', permits, '-inf', now)
    isFree = redis.call('ZCARD', permits) < tonumber(concurrency)
  end
  local source = isFree and redis.call('ZPOPMIN', waiters)[1]
  if not source then return '' end
  if concurrency then redis.call('ZADD', permits, now + RESERVED_MS, RESERVED .. source) end
  return source
end

--@include "./each-job.lua"
return eachJob(release)
