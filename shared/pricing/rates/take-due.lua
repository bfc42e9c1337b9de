-- Answers what peek.lua answers. If a read is due, the caller has the lease of it. `dueMsMax` is the longest time until the next read is due.
--@include "./stored-value.lua"
local due = not due_at or due_at <= now or due_at > now + tonumber(ARGV.dueMsMax)
if due then
  redis.call('HSET', KEYS.rate, 'due_at', now + tonumber(ARGV.leaseMs))
  redis.call('PEXPIRE', KEYS.rate, ARGV.keepMs)
end
return {value, read_at, now, due and 1 or 0, reason, failed_at}
