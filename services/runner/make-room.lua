-- Evicts answers, oldest first. `prefix` is the prefix of the answers' keys. Returns how many it evicted.
--@include "../../shared/redis/now.lua"
--@include "../../shared/redis/kept-values.lua"
local kept = tonumber(redis.call('GET', KEYS.bytes) or 0)
return (evict(KEYS.answers, KEYS.bytes, KEYS.prefix, kept - ARGV.bytesToFree))
