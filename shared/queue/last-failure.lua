-- Defines `lastFailure(log)`, which returns the newest entry of a call's log (call-log.lua), except replays and early runs.
-- Returns '' without such an entry.
local function lastFailure(log)
  local at, line = 0, nil
  repeat
    at = at - 1
    line = redis.call('LINDEX', log, at)
  until not line or not (string.find(line, '^{"replayed"') or string.find(line, '^{"early"'))
  return line or ''
end
