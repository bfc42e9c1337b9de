-- Keeps a payment that was spent elsewhere, with the time of its first arrival, and evicts the oldest ones above the
-- limit.
if redis.call('HSETNX', KEYS.payments, ARGV.id, ARGV.payment) == 0 then return end
redis.call('ZADD', KEYS.times, ARGV.at, ARGV.id)
local over = redis.call('ZCARD', KEYS.times) - KEPT_MAX
if over <= 0 then return end
local oldest = redis.call('ZPOPMIN', KEYS.times, over)
for i = 1, #oldest, 2 do redis.call('HDEL', KEYS.payments, oldest[i]) end
