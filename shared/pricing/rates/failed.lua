-- Stores the reason why the read that began at `readAt` failed. `retryMs` is the wait after the first failure. It
-- doubles with each further failure, up to `refreshMs`. A slow read does not replace the result of a later one.
--@include "./stored-value.lua"
if read_at > tonumber(ARGV.readAt) then return end
local failures = redis.call('HINCRBY', KEYS.rate, 'failures', 1)
local wait = math.min(tonumber(ARGV.refreshMs), ARGV.retryMs * 2 ^ math.min(failures - 1, 30))
redis.call('HSET', KEYS.rate, 'due_at', now + wait, 'reason', ARGV.reason, 'failed_at', ARGV.readAt)
redis.call('PEXPIRE', KEYS.rate, ARGV.keepMs)
