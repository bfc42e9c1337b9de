-- Defines `remembered()`, which returns the stored parts of the call's answer, as `Remembered` in remembered-answer.ts.
local function remembered()
  local call = redis.call('HMGET', KEYS.call, 'status', 'out')
  return {call[1], call[2], redis.call('GET', KEYS.answer)}
end
