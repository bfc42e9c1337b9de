-- Ends the run in the given state. Progress, code and reason may be empty. Returns 0 if another process holds the
-- run, else 1.
--@include "./while-held.lua"
redis.call('HDEL', KEYS.run, 'holder', 'cancel', 'code', 'reason')
redis.call('HSET', KEYS.run, 'st', ARGV.state, 'ended_at', string.format('%.0f', now))
if ARGV.code ~= '' then redis.call('HSET', KEYS.run, 'code', ARGV.code, 'reason', ARGV.reason) end
redis.call('ZREM', KEYS.open, ARGV.id)
redis.call('PEXPIRE', KEYS.run, RUN_KEPT_MS)
return 1
