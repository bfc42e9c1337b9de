-- Defines `addAmounts(key, rows)`, which adds payments, disputed payments or refunds of a day. `rows` maps the name of each
-- row (`rowOf`) to a count and an amount, both in decimal.
local function place(key, name, pattern, size)
  local found = redis.call('HGET', key, name)
  if found or size <= SERIES.subjectsMax then return name, found end
  local group = string.match(name, pattern)
  if not group then return name, found end
  return group .. '*', redis.call('HGET', key, group .. '*')
end

-- Returns the sum of two whole numbers in decimal, of any length.
local function sum(a, b)
  local length = math.max(#a, #b)
  a, b = string.rep('0', length - #a) .. a, string.rep('0', length - #b) .. b
  local digits, carry = {}, 0
  for i = length, 1, -1 do
    local digit = string.byte(a, i) + string.byte(b, i) - 96 + carry
    carry = digit > 9 and 1 or 0
    digits[i] = digit - 10 * carry
  end
  return (carry == 1 and '1' or '') .. table.concat(digits)
end

local function addAmounts(key, rows)
  for wanted, added in pairs(rows) do
    local name, found = place(key, wanted, '^[^ ]* [^ ]* ', redis.call('HLEN', key))
    local count, amount = string.match(found or '0 0', '^(%d+) (%d+)$')
    redis.call('HSET', key, name, sum(count, added[1]) .. ' ' .. sum(amount, added[2]))
  end
  redis.call('PEXPIRE', key, SERIES.earnedKeptMs)
end
