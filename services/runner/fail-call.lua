-- Records that a run has failed. `attempts` is the number of failed runs of a long call, and empty for a short call. Returns
-- 1, or 0 if the call now belongs to another runner.
--@include "../../shared/redis/now.lua"
--@include "./deliver-later.lua"
local seen = redis.call('HMGET', KEYS.call, 'owner', 'at')
if seen[1] ~= ARGV.owner then return 0 end
redis.call('HDEL', KEYS.call, 'owner', 'lease')
redis.call('HSET', KEYS.call, 'st', 'FAILED', 'took', now - (seen[2] or now), 'code', ARGV.code, 'reason', ARGV.reason, 'status', ARGV.status)
if ARGV.attempts ~= '' then redis.call('HSET', KEYS.call, 'attempts', ARGV.attempts) end
if redis.call('PTTL', KEYS.call) > 0 then redis.call('PEXPIRE', KEYS.call, ARGV.listedMs) end
redis.call('ZREM', KEYS.due, ARGV.id)
deliverLater(KEYS.delivery, KEYS.deliveries, ARGV.id, ARGV.memoryMs, FIRST.outgoing)
return 1
