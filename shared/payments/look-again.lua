-- Sets when a payment that is on the list is due again. Answers when that is.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
local dueAt = math.floor(now + ARGV.ms)
redis.call('ZADD', KEYS.due, 'XX', dueAt, ARGV.id)
return dueAt
