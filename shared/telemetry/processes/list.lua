-- Answers Redis' time, and the processes with the times of their last reports.
--@include "../../redis/now.lua"
return {now, redis.call('ZRANGEBYSCORE', KEYS.processes, now - ARGV.keptMs, '+inf', 'WITHSCORES')}
