-- Defines `newIntent(intents, now)`. A script calls it after each change of the operators' intents (intents.ts), to give them
-- a new version. A version is at least the time in ms, so it is higher than all earlier versions even if Redis has lost the
-- last of them.
local function newIntent(intents, now)
  local last = tonumber(redis.call('HGET', intents, 'version') or 0)
  redis.call('HSET', intents, 'version', string.format('%.0f', math.max(now, last + 1)))
end
