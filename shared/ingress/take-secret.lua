-- Takes a secret if the endpoint is open and has none. Returns the hash of the endpoint's secret; nil if the endpoint
-- is not open. A handshake with the same secret may be repeated, because its answer may have been lost.
--@include "../redis/now.lua"
local found = redis.call('HMGET', KEYS.opened, 'session', 'secret')
if not found[1] then return nil end
if found[2] then return redis.sha1hex(found[2]) end
redis.call('HSET', KEYS.opened, 'secret', ARGV.secret, 'address', ARGV.address, 'taken_at', now)
redis.call('PEXPIRE', KEYS.opened, ARGV.ms)
return redis.sha1hex(ARGV.secret)
