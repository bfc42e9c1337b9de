-- KEYS call, due, delivery, deliveries
-- ARGV id, status
-- A short call has no input and cannot be run again. A failure that is not delivered yet no longer counts.
--@include "../../shared/redis/now.lua"
if tonumber(redis.call('HGET', KEYS.call, 'v') or 1) > VERSIONS.runnerCall then return redis.error_reply('NEWER runnerCall') end
local call = redis.call('HMGET', KEYS.call, 'st', 'runs')
if not call[1] then return 'UNKNOWN' end
if call[1] == 'STORED' then return 'WAITING' end
if call[1] ~= 'FAILED' then return call[1] end
if not call[2] then return 'SHORT' end
redis.call('HDEL', KEYS.call, 'took', 'finished', 'code', 'reason')
redis.call('HSET', KEYS.call, 'st', 'STORED', 'status', ARGV.status, 'attempts', 0)
redis.call('ZADD', KEYS.due, now, ARGV.id)
redis.call('DEL', KEYS.delivery)
redis.call('ZREM', KEYS.deliveries, ARGV.id)
return 'STORED'
