-- Answers the first of the calls without their bodies: as many as can be looked through at once, and at least one.
--@include "./bodiless.lua"
local heads, budget = {}, SCANNED_AT_ONCE
for i, key in ipairs(KEYS) do
  local bytes = redis.call('HSTRLEN', key, 'data')
  if bytes <= READ_MAX then budget = budget - bytes end
  if budget < 0 and i > 1 then break end
  heads[i] = bytes > READ_MAX and '' or bodiless(key, 'data')
end
return heads
