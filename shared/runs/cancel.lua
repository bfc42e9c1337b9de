-- KEYS run, open
-- ARGV id
-- Asks that the run end. A run that nobody holds can be taken at once, and whoever takes it ends it.
--@include "./change-run.lua"
--@include "../redis/now.lua"
local st, holder = unpack(redis.call('HMGET', KEYS.run, 'st', 'holder'))
if st ~= 'waiting' and st ~= 'running' then return end
redis.call('HSET', KEYS.run, 'cancel', 1)
if not holder then redis.call('ZADD', KEYS.open, now, ARGV.id) end
