-- Records that an attempt may have had an effect. Also logs the attempt as lost if its outcome was not recorded. Writes
-- nothing if the call has neither a record nor a BullMQ job. The record's field `unsure` matters before a refund. A call
-- without a record was not paid for, so the entry in its log is enough.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
--@include "./is-ended.lua"
--@include "./call-log.lua"
local st = redis.call('HGET', KEYS.record, 'st')
if st then redis.call('HSET', KEYS.record, 'unsure', 1)
elseif redis.call('EXISTS', KEYS.job) == 0 then return end
if not isEnded(st) then logLost(KEYS.attempts, KEYS.historyOff, tonumber(ARGV.take), whole(now)) end
