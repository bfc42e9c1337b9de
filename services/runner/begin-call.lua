-- Marks the call as running and returns NEW. If the call must not run now, returns the reason, and the answer if the call has
-- one. The reason is STORED for a long call that waits or runs: each repeat of its request gets the same 202.
--@include "../../shared/redis/now.lua"
--@include "./known-call.lua"
--@include "./remembered.lua"
local id, owner, lease, memory, listed, job = ARGV.id, ARGV.owner, ARGV.leaseMs, ARGV.memoryMs, ARGV.listedMs, ARGV.job
if st then
  local ofJob, sha256, by, heldUntil, runs = unpack(redis.call('HMGET', KEYS.call, 'job', 'in', 'owner', 'lease', 'runs'))
  if ofJob ~= job or sha256 ~= ARGV.sha256 then return {'REUSED'} end
  if st == 'DONE' then return {'ANSWERED', unpack(remembered())} end
  if st ~= 'FAILED' and runs then return {'STORED'} end
  if st == 'RUNNING' and by ~= owner and tonumber(heldUntil) > now then return {'RUNNING'} end
end
redis.call('ZADD', KEYS.calls, now + listed, id)
redis.call('DEL', KEYS.call)
redis.call('HSET', KEYS.call, 'st', 'RUNNING', 'job', job, 'at', now, 'in', ARGV.sha256, 'len', ARGV.bytes,
  'owner', owner, 'lease', now + lease)
redis.call('PEXPIRE', KEYS.call, memory + lease)
redis.call('ZREM', KEYS.due, id)
local unlisted = math.min(redis.call('ZCOUNT', KEYS.calls, '-inf', now), 1000)
if unlisted > 0 then redis.call('ZREMRANGEBYRANK', KEYS.calls, 0, unlisted - 1) end
return {'NEW'}
