-- Defines `dueAgain(queue, q)`. If the queue has delayed calls that are not due yet, it adds the queue to `due`, for the time
-- when the next of these calls is due. Also defines `isDue` of delays.lua. Needs the key `due` and the time `now`.
--@include "../../../shared/queue/delays.lua"
--@include "../../../shared/queue/held.lua"
local function dueAgain(queue, q)
  local head = redis.call('ZRANGEBYSCORE', q .. 'delayed', '(' .. past, '(' .. heldScore, 'WITHSCORES', 'LIMIT', 0, 1)
  if head[2] then redis.call('ZADD', due, math.floor(head[2] / 0x1000), queue) end
  return head[2]
end
