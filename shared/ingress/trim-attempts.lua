-- Each call has a log of its attempts. One run of this script is one step of a scan over the logs' keys. It deletes all
-- but the newest entry of each log that the step finds. `pattern` matches the keys of the logs. Returns the next
-- cursor, and the number of deleted entries.
--@include "./one-gateway.lua"
local found, gone = redis.call('SCAN', ARGV.cursor, 'MATCH', ARGV.pattern, 'COUNT', 1000), 0
for _, attempts in ipairs(found[2]) do
  gone = gone + redis.call('LLEN', attempts) - 1
  redis.call('LTRIM', attempts, -1, -1)
end
return {found[1], gone}
