-- Defines `lastFailure(log)`: the newest entry of a call's log (call-log.lua) that is no replay, or ''.
local function lastFailure(log)
  local line = redis.call('LINDEX', log, -1)
  if line and string.find(line, '^{"replayed"') then line = redis.call('LINDEX', log, -2) end
  return line or ''
end
