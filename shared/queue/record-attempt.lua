-- Adds a failed attempt to the call's log. Writes nothing if the call has neither a record nor a BullMQ job. Such a call is
-- gone, so nothing would ever delete its log.
--@include "./unless-ended.lua"
--@include "./call-log.lua"
if not st and redis.call('EXISTS', KEYS.job) == 0 then return end
logAttempt(KEYS.attempts, KEYS.historyOff, tonumber(ARGV.take), ARGV.attempt)
redis.call('PERSIST', KEYS.attempts)
redis.call('ZADD', KEYS.since, 'NX', ARGV.acceptedAt, ARGV.id)
publishChange(ARGV.id)
