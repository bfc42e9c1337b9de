-- Lets only this gateway evict data of one kind (kept webhooks, results or history) while Redis is nearly full. While
-- the key KEYS.off exists, all writers store no data of this kind. The gateway renews the key once a second as long as
-- it evicts; without this, the key expires after 3 s. Ends the script with false if another gateway holds the key.
--@include "../redis/even-if-full.lua"
local by = redis.call('GET', KEYS.off)
if by and by ~= ARGV.gateway then return false end
redis.call('SET', KEYS.off, ARGV.gateway, 'PX', 3000)
