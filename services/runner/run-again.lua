-- Gives a failed long call a new set of attempts. If the failure was not delivered to a gateway yet, it is no longer
-- delivered. A short call has no stored input, so it cannot be run again.
--@include "../../shared/redis/now.lua"
--@include "./known-call.lua"
if not st then return 'UNKNOWN' end
if st == 'STORED' then return 'WAITING' end
if st ~= 'FAILED' then return st end
if not redis.call('HGET', KEYS.call, 'runs') then return 'SHORT' end
redis.call('HDEL', KEYS.call, 'took', 'code', 'reason')
redis.call('HSET', KEYS.call, 'st', 'STORED', 'status', ARGV.status, 'attempts', 0)
redis.call('ZADD', KEYS.due, now, ARGV.id)
redis.call('DEL', KEYS.delivery)
redis.call('ZREM', KEYS.deliveries, ARGV.id)
return 'STORED'
