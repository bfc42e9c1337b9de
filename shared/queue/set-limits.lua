-- Defines `setLimits(hash, taken)`, which writes limits into a hash. An empty one is none. A new period begins at once: the calls counted so far
-- were counted for the one before.
local function setLimits(hash, taken)
  if (redis.call('HGET', hash, 'duration') or '') ~= ARGV.duration then redis.call('DEL', taken) end
  for field, value in pairs({concurrency = ARGV.concurrency, max = ARGV.max, duration = ARGV.duration}) do
    if value == '' then redis.call('HDEL', hash, field) else redis.call('HSET', hash, field, value) end
  end
end
