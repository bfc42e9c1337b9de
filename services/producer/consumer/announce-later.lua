--@include "../../../shared/redis/even-if-full.lua"
--@include "../../../shared/redis/now.lua"
for i = FIRST.queues, #ARGV do redis.call('ZADD', KEYS.due, 'LT', now + ARGV.ms, ARGV[i]) end
