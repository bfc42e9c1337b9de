-- Claims a delivery that is due, by making it due again only after `ms`. Until then, no other runner can claim it. Returns
-- its fields, or nil if it is not due.
--@include "../../shared/redis/even-if-full.lua"
--@include "../../shared/redis/now.lua"
local due = redis.call('ZSCORE', KEYS.deliveries, ARGV.id)
if not due or tonumber(due) > now then return false end
local found = redis.call('HMGET', KEYS.delivery, 'token', 'status', 'type', 'body')
if not found[1] then
  redis.call('ZREM', KEYS.deliveries, ARGV.id)
  return false
end
redis.call('ZADD', KEYS.deliveries, now + ARGV.ms, ARGV.id)
found[5] = redis.call('HINCRBY', KEYS.delivery, 'tries', 1)
return found
