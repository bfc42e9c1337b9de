-- Defines `oldest(queue, q)`: since when the oldest call of a queue has waited, an empty text if none waits. A call
-- that failed once or was replayed has its own entry in `since`; entries whose job is gone are removed. It needs
-- ARGV.prefix.
local function oldest(queue, q)
  local since = ARGV.prefix .. ':since:' .. queue
  local first = ''
  local id = redis.call('LINDEX', q .. 'wait', -1)
  if id then first = redis.call('ZSCORE', since, id) or redis.call('HGET', q .. id, 'timestamp') or '' end
  for _ = 1, 100 do
    local retried = redis.call('ZRANGE', since, 0, 0, 'WITHSCORES')
    if not retried[1] then break end
    if redis.call('EXISTS', q .. retried[1]) == 1 then
      if first == '' or tonumber(retried[2]) < tonumber(first) then first = retried[2] end
      break
    end
    redis.call('ZREM', since, retried[1])
  end
  return first
end
