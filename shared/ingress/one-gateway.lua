-- Makes this gateway the one that gives something up while Redis is nearly full, if no other is. Its key, KEYS.off, tells all writers to
-- keep no more of it, until 3 s after this gateway has looked at Redis. Ends the script with false if another gateway holds the key.
--@include "../redis/even-if-full.lua"
local by = redis.call('GET', KEYS.off)
if by and by ~= ARGV.gateway then return false end
redis.call('SET', KEYS.off, ARGV.gateway, 'PX', 3000)
