-- Returns the newest entry of the call's log, and then the same values as read.lua. It returns only the beginning of the
-- result, with the whole first line.
--@include "./read-record.lua"
local result = redis.call('GETRANGE', KEYS.result, 0, HEAD_BYTES_MAX - 1)
return {redis.call('LINDEX', KEYS.attempts, -1), result ~= '' and result,
  redis.call('GET', KEYS.progress), unpack(record, 1, 6)}
