-- KEYS record, result, progress, attempts
-- Answers the newest failed attempt, how many are kept, and then what read.lua answers, with the first line of the result alone.
--@include "./read-record.lua"
local result = redis.call('GETRANGE', KEYS.result, 0, HEAD_BYTES_MAX - 1)
return {redis.call('LINDEX', KEYS.attempts, -1), tostring(redis.call('LLEN', KEYS.attempts)), result ~= '' and result,
  redis.call('GET', KEYS.progress), unpack(record, 1, 7)}
