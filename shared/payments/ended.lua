-- Deletes the data that was needed to finish the call. The payment's own key replaces a key that the payment does not
-- have. A payment whose refund has been exported in the meantime is kept until it is refunded.
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
