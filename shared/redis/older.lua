-- Defines `isOlder(adopted, at)`, which returns whether data with this last adoption and this last report is older than the
-- data that the process has seen. A difference of at most `lossMs` does not count, because a failover may lose the newest
-- writes.
local function isOlder(adopted, at)
  local seen = tonumber(ARGV.seenAdopted)
  if adopted ~= seen then return adopted < seen end
  return at < ARGV.seenAt - ARGV.lossMs
end
