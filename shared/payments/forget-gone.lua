-- Removes the ids of payments whose record has expired from the lists. Returns the number of removed payments.
local gone = 0
for i, id in ipairs(ARGV) do
  if redis.call('EXISTS', KEYS[FIRST.records + i - 1]) == 0 then
    gone = gone + redis.call('ZREM', KEYS.payments, id)
    redis.call('ZREM', KEYS.disputed, id)
    redis.call('ZREM', KEYS.discarded, id)
  end
end
return gone
