-- Defines `dropFailed(queue, id)`, which removes a call and its body from the failed calls of its queue. Needs `prefix`.
-- Returns whether the call was there.
local function dropFailed(queue, id)
  if redis.call('ZREM', prefix .. queue .. ':failed', id) == 0 then return false end
  local own = prefix .. queue .. ':' .. id
  redis.call('HINCRBY', prefix .. 'bytes', queue, -redis.call('HSTRLEN', own, 'data'))
  redis.call('DEL', own)
  return true
end
