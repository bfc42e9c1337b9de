-- Counts a further settle request for a payment, before it is sent. Returns 1 if the request may be sent: the payment's state
-- is among `from`, its claim is younger than `maxAgeMs`, and its call was not dropped. Otherwise returns 0 and counts
-- nothing.
--@include "../call/change-record.lua"
--@include "../redis/now.lua"
if redis.call('HEXISTS', KEYS.payment, 'dropped') == 1 then return 0 end
if now >= redis.call('HGET', KEYS.payment, 'claimed_at') + ARGV.maxAgeMs then return 0 end
for i = FIRST.from, #ARGV do
  if st == ARGV[i] then
    redis.call('HINCRBY', KEYS.payment, 'dispatches', 1)
    redis.call('HSET', KEYS.payment, 'dispatched_at', now)
    return 1
  end
end
return 0
