-- KEYS call, due
-- ARGV id, owner, leaseMs
-- `due` holds the due time; a call that cannot be run leaves it. The call of a later release is postponed, so that it
-- does not stand before others.
--@include "../../shared/redis/even-if-full.lua"
--@include "../../shared/redis/now.lua"
local id = ARGV.id
local due = redis.call('ZSCORE', KEYS.due, id)
if not due or tonumber(due) > now then return false end
local call = redis.call('HMGET', KEYS.call, 'st', 'job', 'in', 'sha256', 'input', 'input_type', 'metadata',
  'traceparent', 'attempts', 'v')
if tonumber(call[10] or 1) > VERSIONS.runnerCall then
  redis.call('ZADD', KEYS.due, now + 5000, id)
  return false
end
if (call[1] ~= 'STORED' and call[1] ~= 'RUNNING') or not call[5] then
  redis.call('ZREM', KEYS.due, id)
  return false
end
redis.call('HSET', KEYS.call, 'st', 'RUNNING', 'owner', ARGV.owner, 'lease', now + ARGV.leaseMs)
redis.call('ZADD', KEYS.due, now + ARGV.leaseMs, id)
call[10] = redis.call('HINCRBY', KEYS.call, 'runs', 1)
return call
