-- Sets the time when a listed payment is due again, and returns it.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
local dueAt = math.floor(now + ARGV.ms)
redis.call('ZADD', KEYS.due, 'XX', dueAt, ARGV.id)
return dueAt
