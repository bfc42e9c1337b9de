-- Defines `addCounted(batch, first)`, which adds the counts of one process to the buckets in Redis. `batch` is the
-- decoded JSON of `toBatches` (write.ts). It names keys by their position, counted from index `first` of KEYS.
--@include "./add-amounts.lua"
local function addCounts(key, ttl, subjects)
  for wanted, added in pairs(subjects) do
    local subject, found = place(key, wanted, '^[^/]*/', redis.call('HLEN', key))
    local counts = found and cjson.decode(found) or {}
    for name, value in pairs(added) do
      local known = counts[name] or 0
      counts[name] = string.sub(name, 1, #SERIES.newest) == SERIES.newest and math.max(known, value) or known + value
    end
    redis.call('HSET', key, subject, cjson.encode(counts))
  end
  redis.call('PEXPIRE', key, ttl)
end

local function addCounted(batch, first)
  for _, bucket in ipairs(batch.buckets) do
    addCounts(KEYS[first + bucket.fine], SERIES.fineMs, bucket.subjects)
    addCounts(KEYS[first + bucket.coarse], SERIES.coarseMs, bucket.subjects)
  end
  for _, day in ipairs(batch.days) do addAmounts(KEYS[first + day.key], day.rows) end
end
