-- Answers 1 if this worker may take a call alone, for as long as a lock lasts: no other one is about to.
--@include "../../../shared/redis/even-if-full.lua"
local by = redis.call('GET', KEYS.alone)
if by and by ~= ARGV.worker then return 0 end
redis.call('SET', KEYS.alone, ARGV.worker, 'PX', ARGV.ms)
return 1
