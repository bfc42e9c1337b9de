-- Asks that the run end, with a line of the audit the first time. A run that nobody holds can be taken at once, and whoever takes it ends it.
--@include "../../redis/even-if-full.lua"
--@include "../../redis/now.lua"
--@include "../../redis/audit/add-act.lua"
local st, holder = unpack(redis.call('HMGET', KEYS.run, 'st', 'holder'))
if st ~= 'waiting' and st ~= 'running' then return end
if redis.call('HSETNX', KEYS.run, 'cancel', 1) == 1 then addAct(ARGV.line) end
if not holder then redis.call('ZADD', KEYS.open, now, ARGV.id) end
