-- Defines `withoutBody(data)`, which takes a stored call as JSON. It returns the JSON with an empty body, or an empty text if
-- that is longer than 64 KiB. `bodiless(key, field)` does the same for a call in a hash. `bodyIn(data)` returns the positions
-- of the quotes around the body. The body itself has no quotes, because it is base64. The search starts after the metadata,
-- because a header in the metadata may also have the name `body`.
local function bodyIn(data)
  local _, opens = string.find(data, '},"body":"', 1, true)
  if not opens then _, opens = string.find(data, '"body":"', 1, true) end
  local closes = opens and string.find(data, '"', opens + 1, true)
  return opens, closes
end

local function withoutBody(data)
  local opens, closes = bodyIn(data)
  if closes then data = string.sub(data, 1, opens) .. string.sub(data, closes) end
  if #data > 65536 then return '' end
  return data
end

local function bodiless(key, field)
  return withoutBody(redis.call('HGET', key, field) or '')
end
