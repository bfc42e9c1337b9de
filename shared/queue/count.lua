-- Defines `count(q)`, which returns the numbers of waiting, delayed, held, in-flight and failed calls of a queue. `q` is the
-- prefix of the queue's keys.
--@include "./held.lua"
local function count(q)
  local held = redis.call('ZCOUNT', q .. 'delayed', heldScore, '+inf')
  return redis.call('LLEN', q .. 'wait'), redis.call('ZCARD', q .. 'delayed') - held, held,
    redis.call('LLEN', q .. 'active'), redis.call('ZCARD', q .. 'failed')
end
