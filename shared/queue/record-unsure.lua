-- An attempt may have had an effect. If its outcome was not recorded, the call's log says so, while the call has a record or a job. A call
-- without a record is remembered nowhere, and nobody paid for it.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
--@include "./is-ended.lua"
--@include "./call-log.lua"
local st = redis.call('HGET', KEYS.record, 'st')
if st then redis.call('HSET', KEYS.record, 'unsure', 1)
elseif redis.call('EXISTS', KEYS.job) == 0 then return end
if not isEnded(st) then logLost(KEYS.attempts, KEYS.historyOff, tonumber(ARGV.take), whole(now)) end
