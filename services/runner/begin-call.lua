-- KEYS call, answer, calls, due
-- ARGV id, owner, leaseMs, memoryMs, listedMs, job, sha256, sha256Hex, bytes
-- Marks the call as running, or tells what is known of it. A long call is answered from the moment it is stored, so a
-- repeat gets its 202 while it waits and runs.
--@include "../../shared/redis/now.lua"
if tonumber(redis.call('HGET', KEYS.call, 'v') or 1) > VERSIONS.runnerCall then return redis.error_reply('NEWER runnerCall') end
--@include "./remembered.lua"
local id, owner, lease, memory, listed, job = ARGV.id, ARGV.owner, ARGV.leaseMs, ARGV.memoryMs, ARGV.listedMs, ARGV.job
local seen = redis.call('HMGET', KEYS.call, 'st', 'job', 'in', 'sha256', 'owner', 'lease', 'runs')
if seen[1] then
  if seen[2] ~= job or (seen[3] or seen[4]) ~= (seen[3] and ARGV.sha256 or ARGV.sha256Hex) then return {'REUSED'} end
  if seen[1] == 'DONE' then return {'ANSWERED', unpack(remembered())} end
  if seen[1] ~= 'FAILED' and seen[7] then return {'STORED'} end
  if seen[1] == 'RUNNING' and seen[5] ~= owner and tonumber(seen[6]) > now then return {'RUNNING'} end
end
redis.call('ZADD', KEYS.calls, now + listed, id)
redis.call('DEL', KEYS.call)
redis.call('HSET', KEYS.call, 'v', VERSIONS.runnerCall, 'st', 'RUNNING', 'job', job, 'at', now, 'in', ARGV.sha256, 'len', ARGV.bytes,
  'owner', owner, 'lease', now + lease)
redis.call('PEXPIRE', KEYS.call, memory + lease)
redis.call('ZREM', KEYS.due, id)
local unlisted = math.min(redis.call('ZCOUNT', KEYS.calls, '-inf', now), 1000)
if unlisted > 0 then redis.call('ZREMRANGEBYRANK', KEYS.calls, 0, unlisted - 1) end
return {'NEW'}
