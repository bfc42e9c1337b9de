-- Opens an endpoint for a new secret. A secret that has arrived but was not shown yet is kept, and its expiry does not
-- change.
--@include "../redis/audit/add-act.lua"
addAct(ARGV.line)
redis.call('HSET', KEYS.opened, 'session', ARGV.session, 'by', ARGV.by)
if redis.call('HEXISTS', KEYS.opened, 'secret') == 0 then redis.call('PEXPIRE', KEYS.opened, ARGV.ms) end
