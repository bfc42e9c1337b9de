-- Defines `noteResumed(resumed, gate, now)`, which stores when calls of a gate were last resumed. All times expire a week
-- after the last one is stored.
local function noteResumed(resumed, gate, now)
  if redis.call('HLEN', resumed) >= RESUMED.max then redis.call('DEL', resumed) end
  redis.call('HSET', resumed, gate, string.format('%.0f', now))
  redis.call('PEXPIRE', resumed, RESUMED.keptMs)
end
