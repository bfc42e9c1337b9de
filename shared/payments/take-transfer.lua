-- Defines `takeTransfer(key, id)`, which assigns a transfer to a call, under the transfer's key. Returns false if the
-- transfer pays for another call.
local function takeTransfer(key, id)
  local by = redis.call('GET', key)
  if by and by ~= id then return false end
  if not by then redis.call('SET', key, id) end
  return true
end
