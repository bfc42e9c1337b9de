-- Moves queues whose time in `due` has come to `wake` (frame.lua). A queue with further delayed calls gets the time of the
-- next of them. Returns the ms until the next queue is due.
--@include "../../../shared/redis/even-if-full.lua"
--@include "../../../shared/redis/now.lua"
--@include "../../../shared/queue/awake.lua"
local prefix = ARGV.prefix
local wake, due = KEYS.wake, KEYS.due
--@include "./due-again.lua"
for _, queue in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, DUE_AT_ONCE)) do
  if not dueAgain(queue, prefix .. ':' .. queue .. ':') then redis.call('ZREM', due, queue) end
  awake(wake, queue)
end
local nextAt = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
return nextAt and math.max(0, nextAt - now)
