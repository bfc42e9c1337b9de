-- Defines `bodiless(key, field)`: a stored call without its body, or an empty text if the rest is too long. The body
-- ends at the next quote, because base64 has none.
local function bodiless(key, field)
  local data = redis.call('HGET', key, field) or ''
  local from = string.find(data, '"body":"', 1, true)
  local to = from and string.find(data, '"', from + 8, true)
  if to then data = string.sub(data, 1, from + 7) .. string.sub(data, to) end
  if #data > 65536 then return '' end
  return data
end
