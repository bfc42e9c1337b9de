-- The window begins again, unless the call was answered 2xx, or its refund exported, since its discard began. `keepMs`
-- is how long a record without a window is kept.
--@include "../call/change-record.lua"
--@include "./is-ended.lua"
if st ~= 'DISCARDED' and isEnded(st) then return end
local w = redis.call('HGET', KEYS.record, 'w') or ARGV.keepMs
redis.call('HSET', KEYS.record, 'st', 'DISCARDED', 'at', ARGV.now)
redis.call('PEXPIRE', KEYS.record, w)
redis.call('PEXPIRE', KEYS.attempts, w)
redis.call('ZREM', KEYS.since, ARGV.id)
