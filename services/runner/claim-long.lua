-- Claims a long call that is due, for the time of a lease. `due` is the sorted set of due times. A call that cannot be run,
-- for example because it has ended, is removed from it. A call that cannot be read is due again after the lease, so that it
-- does not block others.
--@include "../../shared/redis/even-if-full.lua"
--@include "../../shared/redis/now.lua"
local id = ARGV.id
local due = redis.call('ZSCORE', KEYS.due, id)
if not due or tonumber(due) > now then return false end
redis.call('ZADD', KEYS.due, now + ARGV.leaseMs, id)
--@include "./known-call.lua"
local call = redis.call('HMGET', KEYS.call, 'job', 'in', 'input', 'input_type', 'metadata', 'traceparent', 'attempts')
if (st ~= 'STORED' and st ~= 'RUNNING') or not call[3] then
  redis.call('ZREM', KEYS.due, id)
  return false
end
redis.call('HSET', KEYS.call, 'st', 'RUNNING', 'owner', ARGV.owner, 'lease', now + ARGV.leaseMs)
call[8] = redis.call('HINCRBY', KEYS.call, 'runs', 1)
return call
