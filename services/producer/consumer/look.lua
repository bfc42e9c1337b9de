-- Looks at a part of the registry for what nobody was told of: a process may have died with a name in its hand.
-- Answers the queues with calls in hand, the new cursor, and empty queues with how long ago their last event was.
--@include "../../../shared/redis/even-if-full.lua"
--@include "../../../shared/redis/now.lua"
--@include "../../../shared/queue/awake.lua"
local prefix = ARGV.prefix
local wake, due, inHand, registry = KEYS.wake, KEYS.due, KEYS.active, KEYS.registry
--@include "./due-again.lua"
-- Whether somebody has paused the calls of a queue. `gates` is how the keys of the gates begin.
local function isPaused(gates, queue)
  local receiver = string.match(queue, '^' .. CALLBACKS_GATE .. '/[^/]*/[^/]*/(.*)')
  if not receiver then return redis.call('HEXISTS', gates .. string.match(queue, '/(.*)'), 'paused') == 1 end
  return redis.call('HEXISTS', gates .. CALLBACKS_GATE, 'paused') == 1
    or redis.call('HEXISTS', gates .. CALLBACKS_GATE .. '/' .. receiver, 'paused') == 1
end
local found = redis.call('SSCAN', registry, ARGV.cursor, 'COUNT', QUEUES_A_POLL)
local empty = {}
for _, queue in ipairs(found[2]) do
  local q = prefix .. ':' .. queue .. ':'
  local paused = isPaused(prefix .. ':job:', queue)
  local waits = redis.call('EXISTS', q .. 'wait') == 1
  if redis.call('EXISTS', q .. 'active') == 1 then redis.call('SADD', inHand, queue)
  elseif not waits and redis.call('EXISTS', q .. 'delayed', q .. 'failed') == 0 then
    local newest = redis.call('XREVRANGE', q .. 'events', '+', '-', 'COUNT', 1)[1]
    empty[#empty + 1] = {queue, now - (newest and tonumber(string.match(newest[1], '^%d+')) or 0)}
  end
  if not paused then
    if waits or isDue(q .. 'delayed') then awake(wake, queue)
    elseif not redis.call('ZSCORE', due, queue) then dueAgain(queue, q) end
  end
end
return {redis.call('SMEMBERS', inHand), found[1], empty}
