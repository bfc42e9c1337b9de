-- Removes a queue if it has no calls, and returns 1 then. `receiver` is the receiver of a queue of callbacks, and empty for
-- other queues. If it was the receiver's last queue, also deletes the receiver's throttle.
local q = ARGV.prefix .. ':' .. ARGV.queue .. ':'
local lists = {'wait', 'active', 'delayed', 'failed', 'paused', 'prioritized', 'waiting-children', 'completed'}
for _, list in ipairs(lists) do
  if redis.call('EXISTS', q .. list) == 1 then return 0 end
end
redis.call('SREM', KEYS.registry, ARGV.queue)
redis.call('ZREM', KEYS.wake, ARGV.queue)
redis.call('ZREM', KEYS.due, ARGV.queue)
redis.call('SREM', KEYS.active, ARGV.queue)
redis.call('HDEL', KEYS.bytes, ARGV.queue)
redis.call('DEL', q .. 'meta', q .. 'id', q .. 'events', q .. 'marker', q .. 'stalled', q .. 'stalled-check',
  q .. 'limiter', q .. 'pc', ARGV.prefix .. ':since:' .. ARGV.queue)
if ARGV.receiver ~= '' then
  local queues = ARGV.prefix .. ':receiver:' .. ARGV.receiver
  redis.call('SREM', queues, ARGV.queue)
  if redis.call('EXISTS', queues) == 0 then redis.call('HDEL', ARGV.prefix .. ':job:' .. CALLBACKS_GATE .. '/' .. ARGV.receiver, 'throttled') end
end
return 1
