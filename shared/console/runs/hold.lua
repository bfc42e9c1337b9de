-- Renews the lease on a run, and stores the progress unless it is empty. Returns 0 if another process holds the run, 2
-- if the run must end, else 1.
--@include "./while-held.lua"
redis.call('ZADD', KEYS.open, now + ARGV.leaseMs, ARGV.id)
return redis.call('HEXISTS', KEYS.run, 'cancel') == 1 and 2 or 1
