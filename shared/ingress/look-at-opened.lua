-- Answers the session, by, secret, address and taken_at. A secret is answered once.
local found = redis.call('HMGET', KEYS.opened, 'session', 'by', 'secret', 'address', 'taken_at')
if found[1] == ARGV.session and (found[3] or ARGV.close == '1') then redis.call('DEL', KEYS.opened) end
return found
