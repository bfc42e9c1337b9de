-- Answers Redis' time and the fresh beats, oldest first.
--@include "../redis/now.lua"
return {now, redis.call('ZRANGEBYSCORE', KEYS.workers, now - ARGV.freshMs, '+inf', 'WITHSCORES')}
