-- Defines `deliverLater(key, due, id, ms, first)`, which stores the result of a call for delivery, for at most `ms`. It
-- replaces an earlier delivery of the same call. Its data begins at index `first` of ARGV: a token, the status, the
-- Content-Type, and the body if it is kept (`outgoingWords` in delivery-store.ts). If the token is empty, there is nothing to
-- deliver. The including script must define `now`.
local function deliverLater(key, due, id, ms, first)
  if ARGV[first] == '' then return end
  redis.call('DEL', key)
  redis.call('HSET', key, 'token', ARGV[first], 'tries', 0, 'status', ARGV[first + 1],
    'type', ARGV[first + 2])
  if ARGV[first + 3] then redis.call('HSET', key, 'body', ARGV[first + 3]) end
  redis.call('PEXPIRE', key, ms)
  redis.call('ZADD', due, now, id)
end
