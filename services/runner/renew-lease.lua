-- Renews this runner's lease of a call. Returns 1, or 0 if the call now belongs to another runner.
--@include "../../shared/redis/even-if-full.lua"
--@include "../../shared/redis/now.lua"
if redis.call('HGET', KEYS.call, 'owner') ~= ARGV.owner then return 0 end
redis.call('HSET', KEYS.call, 'lease', now + ARGV.leaseMs)
redis.call('ZADD', KEYS.due, 'XX', now + ARGV.leaseMs, ARGV.id)
if redis.call('PTTL', KEYS.call) > 0 then redis.call('PEXPIRE', KEYS.call, ARGV.memoryMs + ARGV.leaseMs) end
return 1
