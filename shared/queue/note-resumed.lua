-- Defines `noteResumed(resumed, gate, now)`. It stores the time when a gate's pause ended, or when calls held by an endpoint
-- were released to it. All times expire a week after the last one is stored. If there are times of too many gates, all are
-- deleted first.
local function noteResumed(resumed, gate, now)
  if redis.call('HLEN', resumed) >= RESUMED.max then redis.call('DEL', resumed) end
  redis.call('HSET', resumed, gate, string.format('%.0f', now))
  redis.call('PEXPIRE', resumed, RESUMED.keptMs)
end
