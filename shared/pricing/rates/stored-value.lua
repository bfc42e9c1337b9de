-- Reads the stored rate. A value whose read is dated in the future is ignored. It is dated so after a failover to a server whose
-- clock is behind, and would look recent for too long.
--@include "../../redis/now.lua"
local found = redis.call('HMGET', KEYS.rate, 'value', 'read_at', 'due_at', 'failures', 'reason', 'failed_at')
local value, read_at, due_at = found[1], tonumber(found[2] or ''), tonumber(found[3] or '')
local reason, failed_at = found[4] and found[5] or '', tonumber(found[6] or 0)
if not read_at or read_at > now + 5000 then value, read_at = '', 0 end
