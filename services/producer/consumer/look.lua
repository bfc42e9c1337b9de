-- Scans a part of the registry of queues for those whose calls can be taken, and adds their names to `wake`. A name may be
-- missing there because a process popped it and died. Returns the queues with calls in flight, the new cursor, and each empty
-- queue with the ms since BullMQ's last event of the queue.
--@include "../../../shared/redis/even-if-full.lua"
--@include "../../../shared/redis/now.lua"
--@include "../../../shared/queue/awake.lua"
local prefix = ARGV.prefix
local wake, due, inFlight, registry = KEYS.wake, KEYS.due, KEYS.active, KEYS.registry
--@include "./due-again.lua"
-- Returns whether the calls of a queue are paused. `gates` is the prefix of the keys of gates.
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
  if redis.call('EXISTS', q .. 'active') == 1 then redis.call('SADD', inFlight, queue)
  elseif not waits and redis.call('EXISTS', q .. 'delayed', q .. 'failed') == 0 then
    local newest = redis.call('XREVRANGE', q .. 'events', '+', '-', 'COUNT', 1)[1]
    empty[#empty + 1] = {queue, now - (newest and tonumber(string.match(newest[1], '^%d+')) or 0)}
  end
  if not paused then
    if waits or isDue(q .. 'delayed') then awake(wake, queue)
    elseif not redis.call('ZSCORE', due, queue) then dueAgain(queue, q) end
  end
end
return {redis.call('SMEMBERS', inFlight), found[1], empty}
