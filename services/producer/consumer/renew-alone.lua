if redis.call('GET', KEYS.alone) == ARGV.worker then redis.call('PEXPIRE', KEYS.alone, ARGV.ms) end
