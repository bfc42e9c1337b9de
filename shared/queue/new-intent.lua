-- Defines `newIntent(intents, now)`, which gives the operators' intents a new version. A version is at least the time in ms,
-- so it is higher than all earlier ones even if Redis has lost the last of them.
local function newIntent(intents, now)
  local last = tonumber(redis.call('HGET', intents, 'version') or 0)
  redis.call('HSET', intents, 'version', string.format('%.0f', math.max(now, last + 1)))
end
