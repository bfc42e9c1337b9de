-- Stores what a runner delivers. Answers a `Delivered`. A runner that runs a failed call again delivers its answer in
-- place of the failure, and a late repeat of the failure changes nothing. The time of a delivery, which comes second in
-- its text, is not compared. The job certainly ran, so a refund must not take its effect for none: `unsure` becomes 1. A
-- record without this field is of a call that nobody watched, and stays so. What expires lives at least as long as the
-- result.
--
-- A call whose result was awaited ends by it, and its callback is queued. One whose runner has not even answered yet
-- ends with that answer (shared/queue/work.lua).
--@include "../call/results/change.lua"
if isClosed then return 'too late' end
local value = ARGV.result
local as, before = deliveredAs(value), deliveredAs(headOf(id))
if (resultRank[before or rs] or 0) >= resultRank[as] then
  -- It is no longer kept, so nobody can tell whether this is the same.
  if not before then return 'same' end
  local function timeless(text) return (string.gsub(text, '"at":%d+', '', 1)) end
  return timeless(redis.call('GET', KEYS.result)) == timeless(value) and 'same' or 'another'
end
dropResult(id .. ':progress')
local known = moveResult(id, rs, as, value)
tellChange(id)
if not st then return 'stored' end
redis.call('HSET', KEYS.record, 'rs', known)
if redis.call('HEXISTS', KEYS.record, 'unsure') == 1 then redis.call('HSET', KEYS.record, 'unsure', 1) end
for _, key in ipairs({KEYS.record, KEYS.payment}) do
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, outlasts(left)) end
end
local prepared = redis.call('HGET', KEYS.record, 'cb')
if prepared then
  --@include "../queue/frame.lua"
  --@include "../queue/callbacks.lua"
  queueCallback(callbackOf(cjson.decode(prepared), known == 'failed' and 'call.failed' or 'call.completed'))
  if known == 'delivered' then redis.call('HDEL', KEYS.record, 'cb') end
end
return 'stored'
