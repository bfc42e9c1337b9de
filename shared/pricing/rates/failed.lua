-- Stores the reason why the read that began at `readAt` failed. The next read may begin after a wait of `retryMs`, which doubles
-- with each further failure, up to `refreshMs`. If a read that began later has already stored its rate, this script does nothing,
-- so that a slow read does not replace a newer result.
--@include "./stored-value.lua"
if read_at > tonumber(ARGV.readAt) then return end
local failures = redis.call('HINCRBY', KEYS.rate, 'failures', 1)
local wait = math.min(tonumber(ARGV.refreshMs), ARGV.retryMs * 2 ^ math.min(failures - 1, 30))
redis.call('HSET', KEYS.rate, 'due_at', now + wait, 'reason', ARGV.reason, 'failed_at', ARGV.readAt)
redis.call('PEXPIRE', KEYS.rate, ARGV.keepMs)
