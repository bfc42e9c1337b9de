-- Defines `count(q)`: how many calls of a queue wait, are delayed, are held, are in flight and have failed. `q` is how the
-- keys of the queue begin.
--@include "./held.lua"
local function count(q)
  local held = redis.call('ZCOUNT', q .. 'delayed', heldScore, '+inf')
  return redis.call('LLEN', q .. 'wait'), redis.call('ZCARD', q .. 'delayed') - held, held,
    redis.call('LLEN', q .. 'active'), redis.call('ZCARD', q .. 'failed')
end
