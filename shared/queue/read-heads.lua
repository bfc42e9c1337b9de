-- Reads the calls in KEYS in order, without their bodies. Stops when the calls that were read have SCANNED_AT_ONCE bytes
-- together, but reads at least one. Returns each call with its last failure.
--@include "./bodiless.lua"
--@include "./last-failure.lua"
local heads, budget = {}, SCANNED_AT_ONCE
for i = 1, #KEYS, 2 do
  local key = KEYS[i]
  local bytes = redis.call('HSTRLEN', key, 'data')
  if bytes <= READ_MAX then budget = budget - bytes end
  if budget < 0 and i > 1 then break end
  heads[#heads + 1] = {bytes > READ_MAX and '' or bodiless(key, 'data'), lastFailure(KEYS[i + 1])}
end
return heads
