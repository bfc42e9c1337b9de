-- Defines `isPaused(gates, queue)`: whether somebody has paused the calls of a queue. `gates` is how the keys of the
-- gates begin.
local function isPaused(gates, queue)
  local receiver = string.match(queue, '^' .. CALLBACKS_GATE .. '/[^/]*/[^/]*/(.*)')
  if not receiver then return redis.call('HEXISTS', gates .. string.match(queue, '/(.*)'), 'paused') == 1 end
  return redis.call('HEXISTS', gates .. CALLBACKS_GATE, 'paused') == 1
    or redis.call('HEXISTS', gates .. CALLBACKS_GATE .. '/' .. receiver, 'paused') == 1
end
