-- Defines `awake(wake, queue)`, which adds a queue to the sorted set `wake`. Its score is the time of Redis, so producers take
-- out the queue that was added first.
local function awake(wake, queue)
  local time = redis.call('TIME')
  redis.call('ZADD', wake, 'NX', time[1] .. string.sub('00000' .. time[2], -6), queue)
end
