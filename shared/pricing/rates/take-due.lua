-- Reads the shared rate as peek.lua does. If a read is due, also gives the caller the lease for it. A stored due time that
-- is more than `dueMsMax` ahead must be wrong, so a read is due then too.
--@include "./stored-value.lua"
local due = not due_at or due_at <= now or due_at > now + tonumber(ARGV.dueMsMax)
if due then
  redis.call('HSET', KEYS.rate, 'due_at', now + tonumber(ARGV.leaseMs))
  redis.call('PEXPIRE', KEYS.rate, ARGV.keepMs)
end
return {value, read_at, now, due and 1 or 0, reason, failed_at}
