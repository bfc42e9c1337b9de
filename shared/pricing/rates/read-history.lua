-- Returns Redis' time and the history.
--@include "../../redis/now.lua"
return {now, redis.call('HGETALL', KEYS.history)}
