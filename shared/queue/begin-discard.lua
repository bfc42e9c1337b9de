-- A call that the runner took stays INJECTED, and only its place among the failed calls goes. For any other call, what
-- was delivered goes too, and the reason why it failed stays. If it was paid for, its money is due back, and the payment
-- loses its copy of the call; what settles it again stays until the chain has shown it. The call's log says who discarded
-- it first, and why (`note`). Answers 1 if the change was made; 2 if another discard had made it, which is under way or
-- died before it removed the job: it has its line of the audit already.
--@include "./while-failed.lua"
local prefix = ARGV.prefix .. ':'
--@include "../call/results/drop-result.lua"
--@include "../redis/now.lua"
--@include "./call-log.lua"
--@include "../redis/audit/add-act.lua"
local isFirst = st ~= 'DISCARDED'
if isFirst then addAct(ARGV.line) end
if st ~= 'INJECTED' then
  if isFirst then logAct('discarded', KEYS.attempts, KEYS.historyOff, whole(now), ARGV.note) end
  changeState(KEYS.record, ARGV.id, 'DISCARDED', ARGV.now)
  redis.call('PERSIST', KEYS.record)
  -- A delivery may have come before the call had a record.
  if dropResult(ARGV.id) or redis.call('HEXISTS', KEYS.record, 'rs') == 1 then redis.call('HSET', KEYS.record, 'rs', 'gone') end
  if redis.call('EXISTS', KEYS.payment) == 1 then redis.call('ZADD', KEYS.discarded, ARGV.now, ARGV.id) end
end
redis.call('HDEL', KEYS.payment, 'call')
redis.call('ZREM', KEYS.since, ARGV.id)
return isFirst and 1 or 2
