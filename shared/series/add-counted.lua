-- `addCounted(batch, first)` adds what a process has counted, as `toBatches` makes it; the batch's keys are the KEYS from `first` on. Counts
-- that a later release has written are left alone: what belongs there is then not counted.
local function place(key, name, pattern, size)
  local found = redis.call('HGET', key, name)
  if found or size <= SERIES.subjectsMax then return name, found end
  local group = string.match(name, pattern)
  if not group then return name, found end
  return group .. '*', redis.call('HGET', key, group .. '*')
end

local function isNewer(key) return tonumber(redis.call('HGET', key, 'v') or 1) > VERSIONS.series end

local function addCounts(key, ttl, subjects)
  if isNewer(key) then return end
  redis.call('HSET', key, 'v', VERSIONS.series)
  redis.call('PEXPIRE', key, ttl)
  for wanted, added in pairs(subjects) do
    local subject, found = place(key, wanted, '^[^/]*/', redis.call('HLEN', key))
    local counts = found and cjson.decode(found) or {}
    for name, value in pairs(added) do
      local known = counts[name] or 0
      counts[name] = string.sub(name, 1, #SERIES.newest) == SERIES.newest and math.max(known, value) or known + value
    end
    redis.call('HSET', key, subject, cjson.encode(counts))
  end
end

-- The sum of two whole numbers in decimal, of any length.
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

local function addEarned(key, rows)
  if isNewer(key) then return end
  redis.call('HSET', key, 'v', VERSIONS.series)
  redis.call('PEXPIRE', key, SERIES.earnedKeptMs)
  for wanted, added in pairs(rows) do
    local name, found = place(key, wanted, '^[^ ]* [^ ]* ', redis.call('HLEN', key))
    local payments, amount = string.match(found or '0 0', '^(%d+) (%d+)$')
    redis.call('HSET', key, name, sum(payments, added[1]) .. ' ' .. sum(amount, added[2]))
  end
end

local function addCounted(batch, first)
  for _, bucket in ipairs(batch.buckets) do
    addCounts(KEYS[first + bucket.fine], SERIES.fineMs, bucket.subjects)
    addCounts(KEYS[first + bucket.coarse], SERIES.coarseMs, bucket.subjects)
  end
  for _, day in ipairs(batch.days) do addEarned(KEYS[first + day.key], day.rows) end
end
