-- KEYS record
-- A call without a record is remembered nowhere, and nobody paid for it.
--@include "../redis/even-if-full.lua"
if redis.call('EXISTS', KEYS.record) == 1 then redis.call('HSET', KEYS.record, 'unsure', 1) end
