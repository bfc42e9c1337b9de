-- Notes that the worker is alive, and forgets workers that have been silent for a day.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
redis.call('ZADD', KEYS.workers, now, ARGV.workerId)
redis.call('ZREMRANGEBYSCORE', KEYS.workers, 0, now - 86400000)
