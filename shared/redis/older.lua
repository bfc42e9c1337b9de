-- Defines `isOlder(adopted, at)`: whether data with this adoption and this last report is older than what the process has seen, beyond what
-- a failover may lose.
local function isOlder(adopted, at)
  local seen = tonumber(ARGV.seenAdopted)
  if adopted ~= seen then return adopted < seen end
  return at < ARGV.seenAt - ARGV.lossMs
end
