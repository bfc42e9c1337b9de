-- Counts a settle request that is about to be sent again. Answers 1 if it may be sent: the payment is SETTLING, was
-- claimed less than `maxAgeMs` ago, and no operator has dropped its call.
--@include "../call/change-record.lua"
--@include "../redis/now.lua"
if st ~= 'SETTLING' or redis.call('HEXISTS', KEYS.payment, 'dropped') == 1 then return 0 end
if now >= redis.call('HGET', KEYS.payment, 'claimed_at') + ARGV.maxAgeMs then return 0 end
redis.call('HINCRBY', KEYS.payment, 'dispatches', 1)
redis.call('HSET', KEYS.payment, 'dispatched_at', now)
return 1
