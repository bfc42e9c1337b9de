--@include "../../shared/redis/even-if-full.lua"
--@include "../../shared/redis/now.lua"
if redis.call('HGET', KEYS.delivery, 'token') == ARGV.token then redis.call('ZADD', KEYS.deliveries, now + ARGV.ms, ARGV.id) end
