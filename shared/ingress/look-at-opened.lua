-- Reads an open endpoint: its session, by, secret, address and taken_at. Deletes the endpoint if `session` opened it
-- last, and either the endpoint has a secret or `close` is '1'. So a secret is returned only once.
local found = redis.call('HMGET', KEYS.opened, 'session', 'by', 'secret', 'address', 'taken_at')
if found[1] == ARGV.session and (found[3] or ARGV.close == '1') then redis.call('DEL', KEYS.opened) end
return found
