if redis.call('HGET', KEYS.delivery, 'token') ~= ARGV.token then return end
redis.call('DEL', KEYS.delivery)
redis.call('ZREM', KEYS.deliveries, ARGV.id)
