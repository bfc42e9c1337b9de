-- Defines two functions. `raiseLastReport(now)` raises the time of the last report to `now`, if the process has seen the same
-- data for long enough (`isSettled`, deployment.ts). `refusesData()` returns whether the process must not use the data: it
-- has another layout or deployment, or is older than data that a process has seen.
--@include "./older.lua"
local deployment, adopted, at, expects = unpack(redis.call('HMGET', KEYS.deployment, 'id', 'adopted', 'at', 'expects'))
at = tonumber(at or 0)

local function refusesData()
  local layout = redis.call('GET', KEYS.layout)
  if layout and not string.find(layout, '"layout":' .. LAYOUT .. '[,}]') then return true end
  if not deployment or ARGV.deploymentId == '' then return false end
  return deployment ~= ARGV.deploymentId or expects or isOlder(tonumber(adopted or 0), at)
end

local function raiseLastReport(now)
  if deployment and ARGV.isSettled == '1' then redis.call('HSET', KEYS.deployment, 'at', math.max(now, at + 1)) end
end
