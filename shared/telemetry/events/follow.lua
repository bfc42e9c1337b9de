-- The id of a new follower makes every process say hello; the lease of others is only renewed.
--@include "../../redis/even-if-full.lua"
if ARGV.isNew == '1' or redis.call('PEXPIRE', KEYS.followed, ARGV.leaseMs) == 0 then
  redis.call('SET', KEYS.followed, ARGV.id, 'PX', ARGV.leaseMs)
end
