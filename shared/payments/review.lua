-- Changes the payment's state from SETTLING to REVIEW. The payment still counts as one of the payer's open payments. Returns
-- the state found.
--@include "../call/change-record.lua"
--@include "../redis/now.lua"
--@include "../call/results/tell-change.lua"
if st == 'SETTLING' then
  changeState(KEYS.record, ARGV.id, 'REVIEW', now)
  redis.call('HSET', KEYS.payment, 'reason', ARGV.reason)
  redis.call('ZREM', KEYS.due, ARGV.id)
  redis.call('ZADD', KEYS.inReview, redis.call('ZSCORE', KEYS.unresolved, ARGV.id) or now, ARGV.id)
  redis.call('ZREM', KEYS.unresolved, ARGV.id)
end
return st
