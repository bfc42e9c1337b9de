-- Deletes what the sender of a call has sent with it (forget.ts). `callbacks` are the callbacks that the call may have, in the order of
-- `callbackIds`, a JSON array. The record is kept for at least `keepMs`. `line` is the line of the audit log. Returns DONE,
-- or changes nothing and returns the reason:
-- - FORGOTTEN with the time of an earlier forget.
-- - UNDECIDED with the state of a payment that may still be settled.
-- - IN_HAND with the place of a call that has not ended.
-- - UNKNOWN.
--
-- A gateway may still have to settle the payment again. The payment's field `request` has the data for this. It stays until
-- the chain has confirmed the payment, and the reconciler then deletes it. BullMQ also keeps event streams, which contain
-- the reasons of failed calls. No part of this program reads these streams, so they are emptied.
--@include "../call/change-record.lua"
local prefix, id, now, keepMs = ARGV.prefix .. ':', ARGV.id, ARGV.now, tonumber(ARGV.keepMs)
--@include "../queue/place-of.lua"
--@include "../queue/drop-failed.lua"
--@include "../call/results/drop-result.lua"
--@include "../call/kept/keep.lua"
--@include "../call/results/tell-change.lua"
--@include "../redis/audit/add-act.lua"

-- Ends a callback. If it still waits in its queue, it is not delivered. A producer that takes it later finds that it has
-- ended, and does not read its data.
local function dropCallback(own, attempts, id)
  redis.call('DEL', attempts)
  local place = placeOf(KEYS.registry, prefix, id)
  if not place then return end
  local key = prefix .. place[1] .. ':' .. id
  if not dropFailed(place[1], id) then
    redis.call('HINCRBY', KEYS.bytes, place[1], -redis.call('HSTRLEN', key, 'data'))
    redis.call('HSET', key, 'data', '')
    redis.call('HDEL', key, 'failedReason', 'stacktrace')
  end
  redis.call('HSET', own, 'st', 'DISCARDED', 'at', now, 'fg', now)
  redis.call('PEXPIRE', own, keepMs)
end

local fg, w, rt = unpack(redis.call('HMGET', KEYS.record, 'fg', 'w', 'rt'))
if fg then return {'FORGOTTEN', fg} end
if st == 'SETTLING' or st == 'REVIEW' then return {'UNDECIDED', st} end
local place = placeOf(KEYS.registry, prefix, id)
if place and place[2] ~= 'failed' then return {'IN_HAND', place[2]} end
if not place then
  if st == 'QUEUED' then return {'IN_HAND', 'missing'} end
  if not st and redis.call('EXISTS', KEYS.attempts, KEYS.result, KEYS.progress, KEYS.kept) == 0 then return {'UNKNOWN'} end
else
  dropFailed(place[1], id)
end
for i, callback in ipairs(cjson.decode(ARGV.callbackIds)) do
  local at = FIRST.callbacks + WIDTH.callbacks * (i - 1)
  local own, attempts = KEYS[at], KEYS[at + 1]
  dropCallback(own, attempts, callback)
end
for _, queue in ipairs(redis.call('SMEMBERS', KEYS.registry)) do
  redis.call('ZREM', prefix .. 'since:' .. queue, id)
  redis.call('XTRIM', prefix .. queue .. ':events', 'MAXLEN', 0)
end
redis.call('DEL', KEYS.attempts)
dropResult(id)
dropResult(id .. ':progress')
-- A kept call was injected, even if its record has expired.
local isKept = redis.call('EXISTS', KEYS.kept) == 1
dropKept(id)

local left = redis.call('PTTL', KEYS.record)
if not st or st == 'FAILED' or st == 'QUEUED' then
  redis.call('HSET', KEYS.record, 'st', isKept and not st and 'INJECTED' or 'DISCARDED', 'at', now)
  if redis.call('EXISTS', KEYS.payment) == 1 then redis.call('ZADD', KEYS.discarded, now, id) end
end
redis.call('HSET', KEYS.record, 'fg', now, 'rs', 'gone')
redis.call('HDEL', KEYS.record, 'fc', 'fp', 'cb')
if st ~= 'REFUND_PENDING' then
  if left < 0 then left = tonumber(w) or keepMs end
  if not rt and left < keepMs then left = keepMs end
  redis.call('PEXPIRE', KEYS.record, left)
end

redis.call('HDEL', KEYS.payment, 'call')
local proven, reason = unpack(redis.call('HMGET', KEYS.payment, 'proven', 'reason'))
if proven == '1' or reason then redis.call('HDEL', KEYS.payment, 'request') end

publishChange(id)
addAct(ARGV.line)
return {'DONE'}
