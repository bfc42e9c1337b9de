-- KEYS record, since, failed
-- ARGV now, id, failedAt
-- Answers 1 if the change was made.
--@include "./while-failed.lua"
--@include "./is-ended.lua"
local st = redis.call('HGET', KEYS.record, 'st')
if st ~= 'INJECTED' and isEnded(st) then return 0 end
if st == 'FAILED' then
  redis.call('HSET', KEYS.record, 'st', 'QUEUED', 'at', ARGV.now)
  redis.call('PERSIST', KEYS.record)
  tellChange(ARGV.id)
end
redis.call('ZADD', KEYS.since, ARGV.now, ARGV.id)
return 1
