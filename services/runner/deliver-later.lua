-- Defines `deliverLater(key, due, id, ms, first)`. It stores what ARGV has from `first` on (`outgoingWords` in
-- delivery-store.ts): a token, which is empty if there is nothing to deliver, the status, the Content-Type, and the
-- body if it is kept. It replaces what waits for the same call. It needs `now`.
local function deliverLater(key, due, id, ms, first)
  if ARGV[first] == '' then return end
  redis.call('DEL', key)
  redis.call('HSET', key, 'token', ARGV[first], 'tries', 0, 'status', ARGV[first + 1],
    'type', ARGV[first + 2])
  if ARGV[first + 3] then redis.call('HSET', key, 'body', ARGV[first + 3]) end
  redis.call('PEXPIRE', key, ms)
  redis.call('ZADD', due, now, id)
end
