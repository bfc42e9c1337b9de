-- Sets a cancelled or stopped run back to waiting, and writes a line of the audit log. Returns 1; 0 if too many runs
-- are waiting or running; 2 if the run is in another state.
--@include "../../redis/now.lua"
--@include "../../redis/audit/add-act.lua"
local st = redis.call('HGET', KEYS.run, 'st')
if st ~= 'cancelled' and st ~= 'stopped' then return 2 end
if redis.call('ZCARD', KEYS.open) >= OPEN_RUNS_MAX then return 0 end
addAct(ARGV.line)
redis.call('HDEL', KEYS.run, 'cancel', 'code', 'reason', 'ended_at')
redis.call('HSET', KEYS.run, 'st', 'waiting', 'resumed_by', ARGV.by)
redis.call('PERSIST', KEYS.run)
redis.call('ZADD', KEYS.open, now, ARGV.id)
return 1
