-- Returns Redis' time, and the members that were seen in the last `freshMs`, each with the time when it was last seen.
--@include "./now.lua"
return {now, redis.call('ZRANGEBYSCORE', KEYS.seen, now - ARGV.freshMs, '+inf', 'WITHSCORES')}
