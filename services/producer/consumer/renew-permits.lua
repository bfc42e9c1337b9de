-- Renews permits. A permit that has expired is created again, because its call is still in flight.
--@include "../../../shared/redis/even-if-full.lua"
--@include "../../../shared/redis/now.lua"
for i, permits in ipairs(KEYS) do redis.call('ZADD', permits, now + ARGV.lockMs, ARGV[FIRST.ids + i - 1]) end
