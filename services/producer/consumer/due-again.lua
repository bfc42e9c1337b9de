-- Defines `dueAgain(queue, q)`: if the queue has delayed calls that are not due yet, it makes the queue due when the next of
-- these calls is. Also defines `isDue` of delays.lua. Needs the key `due` and the time `now`.
--@include "../../../shared/queue/delays.lua"
--@include "../../../shared/queue/held.lua"
local function dueAgain(queue, q)
  local head = redis.call('ZRANGEBYSCORE', q .. 'delayed', '(' .. past, '(' .. heldScore, 'WITHSCORES', 'LIMIT', 0, 1)
  if head[2] then redis.call('ZADD', due, math.floor(head[2] / 0x1000), queue) end
  return head[2]
end
