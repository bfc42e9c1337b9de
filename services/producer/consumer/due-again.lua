-- Defines `dueAgain(queue, q)`, which sets when a queue is due again, if it has calls that are delayed further; and
-- `isDue` of delays.lua. It needs `due`, the key, and `now`.
--@include "../../../shared/queue/delays.lua"
--@include "../../../shared/queue/held.lua"
local function dueAgain(queue, q)
  local head = redis.call('ZRANGEBYSCORE', q .. 'delayed', '(' .. past, '(' .. heldScore, 'WITHSCORES', 'LIMIT', 0, 1)
  if head[2] then redis.call('ZADD', due, math.floor(head[2] / 0x1000), queue) end
  return head[2]
end
