-- Defines `lastFailure(log)`: the newest entry of a call's log (call-log.lua) that is no replay and no early run, or ''.
local function lastFailure(log)
  local at, line = 0, nil
  repeat
    at = at - 1
    line = redis.call('LINDEX', log, at)
  until not line or not (string.find(line, '^{"replayed"') or string.find(line, '^{"early"'))
  return line or ''
end
