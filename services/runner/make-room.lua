-- Lets go of answers, the oldest first. `prefix` is how the keys of answers begin. Answers how many went.
--@include "../../shared/redis/now.lua"
--@include "../../shared/redis/kept-values.lua"
local kept = tonumber(redis.call('GET', KEYS.bytes) or 0)
return (letGo(KEYS.answers, KEYS.bytes, KEYS.prefix, kept - ARGV.bytesToFree))
