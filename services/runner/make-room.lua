-- Evicts answers, oldest first, until `bytesToFree` bytes are free or the limit of one run is reached. `prefix` is the prefix
-- of the answers' keys. Returns how many answers it evicted.
--@include "../../shared/redis/now.lua"
--@include "../../shared/redis/kept-values.lua"
local kept = tonumber(redis.call('GET', KEYS.bytes) or 0)
return (evict(KEYS.answers, KEYS.bytes, KEYS.prefix, kept - ARGV.bytesToFree))
