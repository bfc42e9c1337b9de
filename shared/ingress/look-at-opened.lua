-- Reads an endpoint that an operator opened for a new secret (opened-endpoints.ts): its session, by, secret, address
-- and taken_at. `session` is the command that reads it. If this command opened the endpoint last, and the endpoint has
-- a secret or `close` is '1', also deletes it, which closes it. So a secret is returned to that command only once.
local found = redis.call('HMGET', KEYS.opened, 'session', 'by', 'secret', 'address', 'taken_at')
if found[1] == ARGV.session and (found[3] or ARGV.close == '1') then redis.call('DEL', KEYS.opened) end
return found
