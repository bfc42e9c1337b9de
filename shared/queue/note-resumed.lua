-- Defines `noteResumed(resumed, gate, now)`, which keeps when calls behind a gate were last resumed, for a week after the last one.
local function noteResumed(resumed, gate, now)
  if redis.call('HLEN', resumed) >= RESUMED.max then redis.call('DEL', resumed) end
  redis.call('HSET', resumed, gate, string.format('%.0f', now))
  redis.call('PEXPIRE', resumed, RESUMED.keptMs)
end
