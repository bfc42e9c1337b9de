-- Defines two functions that return the start of a call's wait, or an empty text if there is no such call. Both need
-- ARGV.prefix. `waitingSince(queue, q)` considers the next call to be taken, and `oldest(queue, q)` the oldest call,
-- including delayed calls. The sorted set `since` has this time for each call that had a failed attempt or was replayed.
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
