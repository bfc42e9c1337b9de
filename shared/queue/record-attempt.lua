-- KEYS record, attempts, since, historyOff
-- ARGV attempt, acceptedAt, id
-- Adds a failed attempt. The newest attempt knows how many there were; earlier releases numbered none, and kept nearly
-- all.
--@include "./unless-ended.lua"
local newest = redis.call('LINDEX', KEYS.attempts, -1)
local before = newest and (cjson.decode(newest).n or redis.call('LLEN', KEYS.attempts)) or 0
redis.call('RPUSH', KEYS.attempts, '{"n":' .. string.format('%.0f', before + 1) .. ',' .. string.sub(ARGV.attempt, 2))
redis.call('LTRIM', KEYS.attempts, redis.call('EXISTS', KEYS.historyOff) == 1 and -1 or -ATTEMPTS_KEPT, -1)
redis.call('PERSIST', KEYS.attempts)
redis.call('ZADD', KEYS.since, 'NX', ARGV.acceptedAt, ARGV.id)
tellChange(ARGV.id)
