-- Answers the hash of the secret that the endpoint has now; nothing if it is not open. The handshake with the same secret may be repeated,
-- because its answer may be lost.
--@include "../redis/now.lua"
local found = redis.call('HMGET', KEYS.opened, 'session', 'secret')
if not found[1] then return nil end
if found[2] then return redis.sha1hex(found[2]) end
redis.call('HSET', KEYS.opened, 'secret', ARGV.secret, 'address', ARGV.address, 'taken_at', now)
redis.call('PEXPIRE', KEYS.opened, ARGV.ms)
return redis.sha1hex(ARGV.secret)
