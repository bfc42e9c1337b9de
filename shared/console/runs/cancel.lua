-- Requests the end of a run, and writes a line of the audit log for the first request. If a process holds the run, it
-- learns of this when it renews its lease. If none does, any process can take the run at once, and then ends it.
--@include "../../redis/even-if-full.lua"
--@include "../../redis/now.lua"
--@include "../../redis/audit/add-act.lua"
local st, holder = unpack(redis.call('HMGET', KEYS.run, 'st', 'holder'))
if st ~= 'waiting' and st ~= 'running' then return end
if redis.call('HSETNX', KEYS.run, 'cancel', 1) == 1 then addAct(ARGV.line) end
if not holder then redis.call('ZADD', KEYS.open, now, ARGV.id) end
