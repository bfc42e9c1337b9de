-- Defines two functions that return since when a call has waited, or an empty text if there is no such call. Both need
-- ARGV.prefix. `waitingSince(queue, q)` does this for the call that is taken next, and `oldest(queue, q)` for the oldest
-- call, which may be delayed. The sorted set `since` has this time for each call that had a failed attempt or was replayed.
-- `oldest` also removes calls that no longer exist from that set.
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
