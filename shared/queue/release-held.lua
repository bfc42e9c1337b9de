-- Defines `releaseHeld(path)`, which moves the oldest held calls of an endpoint to the waiting calls, at most
-- RELEASED_AT_ONCE of them. Returns how many are left. Needs the functions of batch.lua, `noteResumed` and the key `resumed`.
local function releaseHeld(path)
  local list = prefix .. 'held:' .. path
  local held = redis.call('LRANGE', list, 0, RELEASED_AT_ONCE - 1)
  for _, entry in ipairs(held) do
    local name, id = string.match(entry, '^(%S+) (.*)')
    local q = opened(string.match(name, '/(.*)'), name)
    if redis.call('ZREM', q.jobs .. 'delayed', id) == 1 then
      redis.call('LPUSH', q.wait, id)
      if not q.wakes then noteResumed(KEYS.resumed, q.gate, now) end
      q.wakes = true
    end
  end
  redis.call('LTRIM', list, #held, -1)
  return redis.call('LLEN', list)
end
