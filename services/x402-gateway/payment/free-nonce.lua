if redis.call('GET', KEYS.nonce) == ARGV.id then redis.call('DEL', KEYS.nonce) end
