-- Returns the fields of each call and its payment, in the order of the ids. If a record has expired, returns no fields for it
-- and removes its id from the lists.
local found = {}
for i, id in ipairs(ARGV) do
  local at = FIRST.calls + WIDTH.calls * (i - 1)
  local record, payment = KEYS[at], KEYS[at + 1]
  local st, since, unsure, late = unpack(redis.call('HMGET', record, 'st', 'at', 'unsure', 'late'))
  if st then
    local fields = redis.call('HMGET', payment, 'terms', 'claimed_at', 'since_block', 'dispatches', 'settlement', 'proven', 'reason', 'refund', 'refunded', 'acknowledged', 'dropped')
    found[i] = {st, since, unsure, late, unpack(fields, 1, 11)}
  else
    redis.call('ZREM', KEYS.payments, id)
    redis.call('ZREM', KEYS.disputed, id)
    redis.call('ZREM', KEYS.discarded, id)
    found[i] = {}
  end
end
return found
