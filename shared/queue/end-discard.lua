-- Last step of a discard (discard.ts): lets the record expire, because the call is gone from its queue. Changes nothing if
-- the runner answered 2xx, or the refund was exported, after the discard began. `keepMs` is used if the record has no
-- retention time of its own.
--@include "../call/change-record.lua"
--@include "./is-ended.lua"
if st ~= 'DISCARDED' and isEnded(st) then return end
local w = redis.call('HGET', KEYS.record, 'w') or ARGV.keepMs
redis.call('HSET', KEYS.record, 'st', 'DISCARDED', 'at', ARGV.now)
redis.call('PEXPIRE', KEYS.record, w)
redis.call('PEXPIRE', KEYS.attempts, w)
redis.call('ZREM', KEYS.since, ARGV.id)
