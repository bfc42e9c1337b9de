-- Stores the secret of a handshake if the endpoint is open (opened-endpoints.ts) and has none. Returns the hash of the
-- secret that is now stored; nil if the endpoint is not open. So a sender that repeats a handshake whose answer was
-- lost succeeds again, and a handshake with another secret fails.
--@include "../redis/now.lua"
local found = redis.call('HMGET', KEYS.opened, 'session', 'secret')
if not found[1] then return nil end
if found[2] then return redis.sha1hex(found[2]) end
redis.call('HSET', KEYS.opened, 'secret', ARGV.secret, 'address', ARGV.address, 'taken_at', now)
redis.call('PEXPIRE', KEYS.opened, ARGV.ms)
return redis.sha1hex(ARGV.secret)
