-- Defines `takeTransfer(key, id)`, which stores under the transfer's `key` that this transfer pays for the call `id`. Returns
-- false if the transfer already pays for another call.
local function takeTransfer(key, id)
  local by = redis.call('GET', key)
  if by and by ~= id then return false end
  if not by then redis.call('SET', key, id) end
  return true
end
