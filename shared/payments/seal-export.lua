-- From now on an export gets nothing from this partition, unless it has a part here already.
--@include "../redis/even-if-full.lua"
if redis.call('EXISTS', KEYS.export) == 1 then return end
redis.call('HSET', KEYS.export, 'open', 0)
redis.call('PEXPIRE', KEYS.export, SEALED_MS)
