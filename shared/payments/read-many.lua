-- KEYS payments, discarded, ...calls(record, payment)
-- ARGV ...ids
-- Answers the fields of each call. Removes ids without a record from the lists.
local found = {}
for i, id in ipairs(ARGV) do
  local at = FIRST.calls + WIDTH.calls * (i - 1)
  local record = redis.call('HMGET', KEYS[at], 'st', 'at', 'unsure', 'late')
  if record[1] then
    local payment = redis.call('HMGET', KEYS[at + 1], 'terms', 'claimed_at', 'since_block', 'dispatches', 'settlement', 'proven', 'reason', 'refund', 'refunded', 'acknowledged', 'dropped')
    found[i] = {record[1], record[2], record[3], record[4], unpack(payment, 1, 11)}
  else
    redis.call('ZREM', KEYS.payments, id)
    redis.call('ZREM', KEYS.discarded, id)
    found[i] = {}
  end
end
return found
