-- Defines `dropFailed(queue, id)` for a script that knows `prefix`: it removes a call and its body from the failed calls of
-- its queue. Returns whether the call was there.
local function dropFailed(queue, id)
  if redis.call('ZREM', prefix .. queue .. ':failed', id) == 0 then return false end
  local own = prefix .. queue .. ':' .. id
  redis.call('HINCRBY', prefix .. 'bytes', queue, -redis.call('HSTRLEN', own, 'data'))
  redis.call('DEL', own)
  return true
end
