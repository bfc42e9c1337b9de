-- KEYS due
-- ARGV countMax
-- Answers the ids of the calls that are due, the longest due first.
--@include "../../shared/redis/now.lua"
return redis.call('ZRANGEBYSCORE', KEYS.due, '-inf', now, 'LIMIT', 0, ARGV.countMax)
