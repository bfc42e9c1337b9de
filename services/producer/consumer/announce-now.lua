--@include "../../../shared/redis/even-if-full.lua"
for _, queue in ipairs(ARGV) do redis.call('ZADD', KEYS.wake, 'NX', 0, queue) end
