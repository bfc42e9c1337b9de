-- Reads the shared rate as peek.lua does. If a read of the source is due, also gives the caller the lease for it, which means
-- that the caller must read the source now. A stored due time that is more than `dueMsMax` ahead must be wrong. A read is due in
-- that case too.
--@include "./stored-value.lua"
local due = not due_at or due_at <= now or due_at > now + tonumber(ARGV.dueMsMax)
if due then
  redis.call('HSET', KEYS.rate, 'due_at', now + tonumber(ARGV.leaseMs))
  redis.call('PEXPIRE', KEYS.rate, ARGV.keepMs)
end
return {value, read_at, now, due and 1 or 0, reason, failed_at}
