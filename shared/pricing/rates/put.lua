-- Stores the rate that a process has read from its source, and adds it to the history of each token that uses this rate.
-- The read began at `readAt`. If a read that began later has already stored its rate, this script does nothing. So a slow
-- read never replaces a newer rate.
--@include "./stored-value.lua"
if read_at > tonumber(ARGV.readAt) then return end
redis.call('HSET', KEYS.rate, 'value', ARGV.value, 'read_at', ARGV.readAt, 'due_at', ARGV.readAt + ARGV.refreshMs)
redis.call('HDEL', KEYS.rate, 'failures', 'reason', 'failed_at')
redis.call('PEXPIRE', KEYS.rate, ARGV.keepMs)
local at = tonumber(ARGV.readAt)
for i = FIRST.histories, #KEYS do
  local reading = string.format('%d %s', at, ARGV.value)
  redis.call('HSET', KEYS[i], '1h:' .. math.floor(at / HOUR.ms) % HOUR.count, reading,
    '24h:' .. math.floor(at / DAY.ms) % DAY.count, reading)
  redis.call('PEXPIRE', KEYS[i], HISTORY_MS)
end
