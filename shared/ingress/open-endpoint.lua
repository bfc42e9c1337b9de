-- Opens an endpoint for a new secret (opened-endpoints.ts). If a secret has arrived that no operator has seen, it is
-- kept until its own expiry. This operator can then see it.
--@include "../redis/audit/add-act.lua"
addAct(ARGV.line)
redis.call('HSET', KEYS.opened, 'session', ARGV.session, 'by', ARGV.by)
if redis.call('HEXISTS', KEYS.opened, 'secret') == 0 then redis.call('PEXPIRE', KEYS.opened, ARGV.ms) end
