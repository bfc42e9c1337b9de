-- KEYS opened
-- ARGV session, by, ms
-- Keeps a secret that nobody has seen, and the time that is left for it.
if tonumber(redis.call('HGET', KEYS.opened, 'v') or 1) > VERSIONS.opened then return redis.error_reply('NEWER opened') end
redis.call('HSET', KEYS.opened, 'v', VERSIONS.opened, 'session', ARGV.session, 'by', ARGV.by)
if redis.call('HEXISTS', KEYS.opened, 'secret') == 0 then redis.call('PEXPIRE', KEYS.opened, ARGV.ms) end
