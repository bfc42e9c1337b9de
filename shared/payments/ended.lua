-- Deletes a payment's data that was needed only to finish its call, and lets the rest expire. If the payment lacks one of the
-- keys, the payment's own key is passed in its place. If its refund has been exported since the payment was read, the script
-- changes nothing, because the payment must be kept until it is refunded.
--@include "../call/change-record.lua"
--@include "../redis/now.lua"
if st == 'REFUND_PENDING' or st == 'REFUNDED' then return end
local left = redis.call('PTTL', KEYS.record)
local w = tonumber(redis.call('HGET', KEYS.record, 'w'))
if left < 0 then
  left = w
  redis.call('PEXPIRE', KEYS.record, left)
end
redis.call('HDEL', KEYS.payment, 'call', 'request')
redis.call('HSETNX', KEYS.payment, 'ended_at', now)
for _, key in ipairs({KEYS.payment, KEYS.identifier, KEYS.transfer, KEYS.idempotencyKey}) do redis.call('PEXPIRE', key, left) end
redis.call('ZREM', KEYS.due, ARGV.id)
redis.call('ZREM', KEYS.unresolved, ARGV.id)
