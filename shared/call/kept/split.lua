-- Defines `splitKept(value)`, which returns the answer and the call of a kept webhook (kept.ts); empty texts if the value is
-- damaged.
local function splitKept(value)
  local bytes, from = string.match(value, '^[^\n]*\n(%d+)\n()')
  if not bytes then return '', '' end
  return string.sub(value, from, from + bytes - 1), string.sub(value, from + bytes)
end
