-- Seals an export: this partition adds no cases to it later. Does nothing if the export already has cases in this
-- partition.
--@include "../redis/even-if-full.lua"
if redis.call('EXISTS', KEYS.export) == 1 then return end
redis.call('HSET', KEYS.export, 'open', 0)
redis.call('PEXPIRE', KEYS.export, SEALED_MS)
