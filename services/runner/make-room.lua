-- Evicts answers, oldest first, until `bytesToFree` bytes are free, or the maximum number that one run of the script may
-- evict is reached. `prefix` is the prefix of the answers' keys. Returns the number of evicted answers.
--@include "../../shared/redis/now.lua"
--@include "../../shared/redis/kept-values.lua"
local kept = tonumber(redis.call('GET', KEYS.bytes) or 0)
return (evict(KEYS.answers, KEYS.bytes, KEYS.prefix, kept - ARGV.bytesToFree))
