-- Keeps a refused payment whose authorization was already used or cancelled, with the time of its first arrival. If there are
-- more than KEPT_MAX, evicts the oldest ones.
if redis.call('HSETNX', KEYS.payments, ARGV.id, ARGV.payment) == 0 then return end
redis.call('ZADD', KEYS.times, ARGV.at, ARGV.id)
local over = redis.call('ZCARD', KEYS.times) - KEPT_MAX
if over <= 0 then return end
local oldest = redis.call('ZPOPMIN', KEYS.times, over)
for i = 1, #oldest, 2 do redis.call('HDEL', KEYS.payments, oldest[i]) end
