-- Defines `remembered()`: what is remembered of the answer of the call, as `Remembered` in remembered-answer.ts.
local function remembered()
  local call = redis.call('HMGET', KEYS.call, 'status', 'out', 'type', 'answer')
  return {call[1], call[2], redis.call('GET', KEYS.answer), call[3], call[4]}
end
