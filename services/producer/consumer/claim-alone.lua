-- Claims for a worker the right to take a call alone (alone.ts). The claim expires after `ms`, unless it is renewed. Returns
-- 0 if another worker has the claim, otherwise 1.
--@include "../../../shared/redis/even-if-full.lua"
local by = redis.call('GET', KEYS.alone)
if by and by ~= ARGV.worker then return 0 end
redis.call('SET', KEYS.alone, ARGV.worker, 'PX', ARGV.ms)
return 1
