-- Stores a long call with its input, so that it is due at once. Returns 1, or 0 if the call now belongs to another runner.
--@include "../../shared/redis/now.lua"
local id = ARGV.id
if redis.call('HGET', KEYS.call, 'owner') ~= ARGV.owner then return 0 end
redis.call('HSET', KEYS.call, 'st', 'STORED', 'status', ARGV.status, 'input', ARGV.input, 'input_type', ARGV.inputType, 'metadata', ARGV.metadata,
  'traceparent', ARGV.traceparent, 'attempts', 0, 'runs', 0)
redis.call('HDEL', KEYS.call, 'owner', 'lease')
redis.call('PERSIST', KEYS.call)
redis.call('ZADD', KEYS.calls, '+inf', id)
redis.call('ZADD', KEYS.due, now, id)
return 1
