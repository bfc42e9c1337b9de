-- Defines `isOlder(adopted, at)`. It returns whether data is older than the data that the process has seen. The arguments are
-- the times of the data's last adoption and last report. A report that is older by at most `lossMs` does not count, because a
-- failover may lose the newest writes.
local function isOlder(adopted, at)
  local seen = tonumber(ARGV.seenAdopted)
  if adopted ~= seen then return adopted < seen end
  return at < ARGV.seenAt - ARGV.lossMs
end
