-- Defines `awake(wake, queue)`, which puts a queue into `wake`. Names leave it in the order in which they came, by
-- Redis' clock.
local function awake(wake, queue)
  local time = redis.call('TIME')
  redis.call('ZADD', wake, 'NX', time[1] .. string.sub('00000' .. time[2], -6), queue)
end
