-- Acquires permits. Each item is a request of one slot of a worker, named `id`. The slot is about to take a call from
-- `source`, a queue of one partition. Returns for each item one of these words, and a number:
--
--   PERMIT  the slot has a permit. The number is the end of the rate period (unix ms), or 0 if the job has no
--           rate, or if the item was sent again.
--   NONE    the job no longer has limits.
--   FULL    the limit of calls in flight is reached. The source waits for the next free permit (release-permits.lua).
--   RATE    the limit of this period is reached. The number is the wait in ms.
--
-- An item that is sent again gets the same permit. A permit that is not renewed expires after the time `lockMs`, like the
-- lock of a call. If a permit is reserved for the source (release-permits.lua), the slot gets it.
--@include "../../../shared/redis/even-if-full.lua"
--@include "../../../shared/redis/now.lua"
local function waits(waiters, source)
  redis.call('ZADD', waiters, 'NX', now, source)
  redis.call('PEXPIRE', waiters, KEPT_MS)
end

-- Returns the ms until the rate allows another call; 0 if it allows one now.
local function untilNextPeriod(taken, max)
  local ms = redis.call('PTTL', taken)
  if ms <= 0 then
    redis.call('DEL', taken)
    return 0
  end
  return tonumber(redis.call('GET', taken)) >= tonumber(max) and ms or 0
end

local function acquire(limits, permits, waiters, taken, source, id)
  local concurrency, max, duration = unpack(redis.call('HMGET', limits, 'concurrency', 'max', 'duration'))
  if not concurrency and not max then return {'NONE', 0} end
  redis.call('ZREMRANGEBYSCORE', permits, '-inf', now)
  if redis.call('ZSCORE', permits, id) then return {'PERMIT', 0} end
  if max then
    local ms = untilNextPeriod(taken, max)
    if ms > 0 then
      -- A source that began to wait later gets a longer wait. So the sources that have waited longest request first in the
      -- next period.
      waits(waiters, source)
      local before = redis.call('ZCOUNT', waiters, '-inf', '(' .. redis.call('ZSCORE', waiters, source))
      return {'RATE', ms + math.min(before * NEXT_AFTER_MS, tonumber(duration))}
    end
  end
  local isReserved = redis.call('ZREM', permits, RESERVED .. source) == 1
  if concurrency and not isReserved and redis.call('ZCARD', permits) >= tonumber(concurrency) then
    waits(waiters, source)
    return {'FULL', 0}
  end
  redis.call('ZADD', permits, now + ARGV.lockMs, id)
  redis.call('PEXPIRE', permits, KEPT_MS)
  redis.call('ZREM', waiters, source)
  if not max then return {'PERMIT', 0} end
  if redis.call('INCR', taken) == 1 then redis.call('PEXPIRE', taken, duration) end
  return {'PERMIT', now + redis.call('PTTL', taken)}
end

--@include "./each-job.lua"
return eachJob(acquire)
