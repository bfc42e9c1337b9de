-- KEYS payments, ...records
-- ARGV ...ids
-- Removes ids without a record from the list. Answers how many.
local gone = 0
for i, id in ipairs(ARGV) do
  if redis.call('EXISTS', KEYS[FIRST.records + i - 1]) == 0 then gone = gone + redis.call('ZREM', KEYS.payments, id) end
end
return gone
