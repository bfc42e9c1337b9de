-- Seals an export in a partition without a part of it, so that this partition adds no cases to it later (all-refunds.ts). If
-- the export already has cases in this partition, does nothing.
--@include "../redis/even-if-full.lua"
if redis.call('EXISTS', KEYS.export) == 1 then return end
redis.call('HSET', KEYS.export, 'open', 0)
redis.call('PEXPIRE', KEYS.export, SEALED_MS)
