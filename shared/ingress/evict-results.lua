-- Deletes results, the oldest first. `prefix` is how their keys begin. Answers how many went.
--@include "./one-gateway.lua"
--@include "../redis/now.lua"
--@include "../redis/kept-values.lua"
local kept = tonumber(redis.call('GET', KEYS.bytes) or 0)
return (letGo(KEYS.results, KEYS.bytes, ARGV.prefix, kept - ARGV.bytesToFree))
