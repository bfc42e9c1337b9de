-- Defines `setLimits(hash, taken)`, which writes limits into a hash. An empty argument means no limit. If the period changes,
-- the counter `taken` is deleted, because its calls were counted for the old period.
local function setLimits(hash, taken)
  if (redis.call('HGET', hash, 'duration') or '') ~= ARGV.duration then redis.call('DEL', taken) end
  for field, value in pairs({concurrency = ARGV.concurrency, max = ARGV.max, duration = ARGV.duration}) do
    if value == '' then redis.call('HDEL', hash, field) else redis.call('HSET', hash, field, value) end
  end
end
