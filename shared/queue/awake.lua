-- Defines `awake(wake, queue)`, which adds a queue to the sorted set `wake`. Producers remove queues in the order of
-- their arrival, by Redis' clock.
local function awake(wake, queue)
  local time = redis.call('TIME')
  redis.call('ZADD', wake, 'NX', time[1] .. string.sub('00000' .. time[2], -6), queue)
end
