-- Keeps a secret that nobody has seen, and the time that is left for it.
--@include "../redis/audit/add-act.lua"
addAct(ARGV.line)
redis.call('HSET', KEYS.opened, 'session', ARGV.session, 'by', ARGV.by)
if redis.call('HEXISTS', KEYS.opened, 'secret') == 0 then redis.call('PEXPIRE', KEYS.opened, ARGV.ms) end
