-- First step of a discard (discard.ts): marks a failed call as discarded. If the runner accepted the call after all, the
-- record stays INJECTED, and the discard only removes the call from the failed calls. For any other call, a result that the
-- runner has delivered is deleted, and the reason of the failure stays. If the call was paid for, its refund becomes due, and
-- the copy of the call in the payment's hash is deleted. That hash keeps the data for another settle request until the chain
-- confirms the payment. The call's log says who discarded the call first, and why (`note`).
--
-- Returns 1 if the change was made, or 2 if another discard had made it. That discard still runs or has died, because BullMQ's
-- job of the call still exists. The audit log already has the line of that discard.
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
  -- Drops the result even if the record has no `rs`, because the runner of a long job may have delivered it before the call
  -- had a record.
  if dropResult(ARGV.id) or redis.call('HEXISTS', KEYS.record, 'rs') == 1 then redis.call('HSET', KEYS.record, 'rs', 'gone') end
  if redis.call('EXISTS', KEYS.payment) == 1 then redis.call('ZADD', KEYS.discarded, ARGV.now, ARGV.id) end
end
redis.call('HDEL', KEYS.payment, 'call')
redis.call('ZREM', KEYS.since, ARGV.id)
return isFirst and 1 or 2
