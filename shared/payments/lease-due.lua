-- Leases due payments to a gateway, by making each due again only after the lease. Until then, other gateways get other
-- payments. Returns the ids.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
local ids = redis.call('ZRANGEBYSCORE', KEYS.due, '-inf', now, 'LIMIT', 0, ARGV.count)
for _, id in ipairs(ids) do redis.call('ZADD', KEYS.due, now + ARGV.leaseMs, id) end
return ids
