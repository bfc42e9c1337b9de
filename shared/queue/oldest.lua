-- Defines `waitingSince(queue, q)`: since when the next call to be taken has waited. Defines `oldest(queue, q)`: since when the
-- oldest call has waited, delayed calls included. Each is an empty text if there is no such call. A call that failed once or was
-- replayed has its own entry in `since`; entries whose job is gone are removed. Both need ARGV.prefix.
local function waitingSince(queue, q)
  local id = redis.call('LINDEX', q .. 'wait', -1)
  if not id then return '' end
  return redis.call('ZSCORE', ARGV.prefix .. ':since:' .. queue, id) or redis.call('HGET', q .. id, 'timestamp') or ''
end
local function oldest(queue, q)
  local since = ARGV.prefix .. ':since:' .. queue
  local first = waitingSince(queue, q)
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
