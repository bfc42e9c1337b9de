-- Defines `newIntent(intents, now)`, which gives what operators now say its version. A later version is higher also if Redis has lost the last
-- ones, because it is at least the time.
local function newIntent(intents, now)
  local last = tonumber(redis.call('HGET', intents, 'version') or 0)
  redis.call('HSET', intents, 'version', string.format('%.0f', math.max(now, last + 1)))
end
