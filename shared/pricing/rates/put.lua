-- Stores a value whose read began at `readAt`, and adds it to the histories of the rate's tokens. A slow read does
-- not replace the result of a later one.
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
