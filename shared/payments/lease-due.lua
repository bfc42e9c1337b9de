-- Leases due payments. Each is due again after the lease, so that other gateways take other payments meanwhile.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
local ids = redis.call('ZRANGEBYSCORE', KEYS.due, '-inf', now, 'LIMIT', 0, ARGV.count)
for _, id in ipairs(ids) do redis.call('ZADD', KEYS.due, now + ARGV.leaseMs, id) end
return ids
