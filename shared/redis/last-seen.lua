-- Answers Redis' time, and the members that were seen in the last `freshMs` with when that was.
--@include "./now.lua"
return {now, redis.call('ZRANGEBYSCORE', KEYS.seen, now - ARGV.freshMs, '+inf', 'WITHSCORES')}
