-- Closes an endpoint that an operator opened for a new secret (opened-endpoints.ts). Returns the operator who opened
-- it, and whether a secret has arrived that no operator has seen; it is lost. Returns nil if the endpoint is not open.
--@include "../redis/audit/add-act.lua"
local by, had_secret = redis.call('HGET', KEYS.opened, 'by'), redis.call('HEXISTS', KEYS.opened, 'secret')
if redis.call('EXISTS', KEYS.opened) == 0 then return nil end
addAct(ARGV.line)
redis.call('DEL', KEYS.opened)
return {by, had_secret}
