-- Answers the ids of what is due, the longest due first, and in how many ms the next becomes due, if anything does.
--@include "../../shared/redis/now.lua"
local ids = redis.call('ZRANGEBYSCORE', KEYS.due, '-inf', now, 'LIMIT', 0, ARGV.countMax)
local after = redis.call('ZRANGEBYSCORE', KEYS.due, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {ids, after[2] and math.ceil(tonumber(after[2]) - now)}
