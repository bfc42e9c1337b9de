-- Deletes the oldest results. `prefix` is the prefix of their keys. Returns the number of deleted results.
--@include "./one-gateway.lua"
--@include "../redis/now.lua"
--@include "../redis/kept-values.lua"
local kept = tonumber(redis.call('GET', KEYS.bytes) or 0)
return (evict(KEYS.results, KEYS.bytes, ARGV.prefix, kept - ARGV.bytesToFree))
