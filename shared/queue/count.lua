-- Defines `count(q)`: how many calls of a queue wait, are delayed, are in hand and have failed. `q` is how the keys
-- of the queue begin.
local function count(q)
  return redis.call('LLEN', q .. 'wait'), redis.call('ZCARD', q .. 'delayed'), redis.call('LLEN', q .. 'active'),
    redis.call('ZCARD', q .. 'failed')
end
