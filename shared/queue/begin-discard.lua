-- KEYS record, since, failed
-- ARGV now, id, failedAt, prefix
-- A call that the runner took stays INJECTED, and only its place among the failed calls goes. For any other call, what
-- was delivered goes too, and the reason why it failed stays. Answers 1 if the change was made.
--@include "./while-failed.lua"
local prefix = ARGV.prefix .. ':'
--@include "../results/drop-result.lua"
if redis.call('HGET', KEYS.record, 'st') ~= 'INJECTED' then
  redis.call('HSET', KEYS.record, 'st', 'DISCARDED', 'at', ARGV.now, 'v', PLAIN_RECORD)
  redis.call('PERSIST', KEYS.record)
  -- A delivery may have come before the call had a record.
  if dropResult(ARGV.id) or redis.call('HEXISTS', KEYS.record, 'rs') == 1 then redis.call('HSET', KEYS.record, 'rs', 'gone') end
  tellChange(ARGV.id)
end
redis.call('ZREM', KEYS.since, ARGV.id)
return 1
