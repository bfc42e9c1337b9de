-- Defines `takeTransfer(key, id)`, which takes a transfer for a call, under the transfer's key. False if it pays for
-- another one.
local function takeTransfer(key, id)
  local by = redis.call('GET', key)
  if by and by ~= id then return false end
  if not by then redis.call('SET', key, id) end
  return true
end
