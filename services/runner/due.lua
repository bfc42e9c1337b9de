-- Returns the ids that are due, earliest due time first, and the ms until the next one becomes due, if any.
--@include "../../shared/redis/now.lua"
local ids = redis.call('ZRANGEBYSCORE', KEYS.due, '-inf', now, 'LIMIT', 0, ARGV.countMax)
local after = redis.call('ZRANGEBYSCORE', KEYS.due, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {ids, after[2] and math.ceil(tonumber(after[2]) - now)}
