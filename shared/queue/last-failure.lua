-- Defines `lastFailure(log)`, which returns the newest failure in a call's log (call-log.lua). It skips replays, and entries of
-- operators who began the next attempt early. Returns '' without a failure.
local function lastFailure(log)
  local at, line = 0, nil
  repeat
    at = at - 1
    line = redis.call('LINDEX', log, at)
  until not line or not (string.find(line, '^{"replayed"') or string.find(line, '^{"early"'))
  return line or ''
end
