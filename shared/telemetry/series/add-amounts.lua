-- Defines `addAmounts(key, rows)`, which adds payments, disputed payments or refunds to the sums of a day. `key` is the
-- Redis hash with these sums. `rows` maps the name of each row to a count and an amount, both as decimal text. A row is
-- for one job and one token (`rowOf` in series.ts).
local function place(key, name, pattern, size)
  local found = redis.call('HGET', key, name)
  if found or size <= SERIES.subjectsMax then return name, found end
  local group = string.match(name, pattern)
  if not group then return name, found end
  return group .. '*', redis.call('HGET', key, group .. '*')
end

-- Returns the sum of two whole numbers. They are decimal text, because amounts can be too large for Lua's numbers.
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
