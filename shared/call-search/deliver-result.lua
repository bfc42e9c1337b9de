-- Stores the result that a runner delivers. Returns a `Delivered` (deliver-result.ts). The record and the payment are then
-- kept at least as long as the result.
--
-- A runner may deliver a failure, run the job again and then deliver an answer. The answer replaces the failure, and a late
-- repeat of the failure changes nothing. Deliveries are compared without their time (`at`), the second field of their text.
--
-- The record's field `unsure` becomes 1: the job ran, so a refund must not assume that it had no effect. A record without
-- this field does not get it, because the effect of its call counts as unknown anyway.
--
-- A runner may still have to answer the request that injected the call. Once it has answered, the call ends when its result
-- is delivered: the delivery queues the callback. If the delivery comes first, the answer ends the call later and queues
-- the callback (shared/queue/work.lua).
--@include "../call/results/change.lua"
if isClosed then return 'too late' end
local value = ARGV.result
local as, before = deliveredAs(value), deliveredAs(headOf(id))
if (resultRank[before or rs] or 0) >= resultRank[as] then
  -- The earlier result is no longer kept, so this one cannot be compared with it.
  if not before then return 'same' end
  local function timeless(text) return (string.gsub(text, '"at":%d+', '', 1)) end
  return timeless(redis.call('GET', KEYS.result)) == timeless(value) and 'same' or 'another'
end
dropResult(id .. ':progress')
local known = moveResult(id, rs, as, value)
publishChange(id)
if not st then return 'stored' end
redis.call('HSET', KEYS.record, 'rs', known)
if redis.call('HEXISTS', KEYS.record, 'unsure') == 1 then redis.call('HSET', KEYS.record, 'unsure', 1) end
for _, key in ipairs({KEYS.record, KEYS.payment}) do
  local left = redis.call('PTTL', key)
  if left >= 0 then redis.call('PEXPIRE', key, recordKeepMs(left)) end
end
local prepared = redis.call('HGET', KEYS.record, 'cb')
if prepared then
  --@include "../queue/frame.lua"
  --@include "../queue/callbacks.lua"
  queueCallback(callbackOf(cjson.decode(prepared), known == 'failed' and 'call.failed' or 'call.completed'))
  if known == 'delivered' then redis.call('HDEL', KEYS.record, 'cb') end
end
return 'stored'
