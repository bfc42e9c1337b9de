-- Stores or renews the followers' lease. Gateways and producers send live events while this key exists. A new follower
-- gives the lease a new id. Each process notices the new id and sends a message with `hello`, so that the follower
-- learns which processes there are. A renewal keeps the id, unless the lease has expired.
--@include "../../redis/even-if-full.lua"
if ARGV.isNew == '1' or redis.call('PEXPIRE', KEYS.followed, ARGV.leaseMs) == 0 then
  redis.call('SET', KEYS.followed, ARGV.id, 'PX', ARGV.leaseMs)
end
