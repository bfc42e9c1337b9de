-- Sets that a payment on the reconciler's list is due again in `ms`. Returns the new due time. A payment that is not listed
-- is not added.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
local dueAt = math.floor(now + ARGV.ms)
redis.call('ZADD', KEYS.due, 'XX', dueAt, ARGV.id)
return dueAt
