-- Records that an audit has covered a network's payments since the time `unaudited` (unix ms). Once all `networks` are
-- covered, allows sales again and returns 1; else returns 0. Records nothing if the deployment's `unaudited` or `adopted`
-- has changed since the audit began.
local unaudited, adopted = unpack(redis.call('HMGET', KEYS.deployment, 'unaudited', 'adopted'))
if unaudited ~= ARGV.unaudited or adopted ~= ARGV.adopted then return 0 end
local covered = ARGV.unaudited .. '/' .. ARGV.adopted
redis.call('HSET', KEYS.deployment, 'audited:' .. ARGV.network, covered)
local fields = {'unaudited'}
for i = FIRST.networks, #ARGV do
  local field = 'audited:' .. ARGV[i]
  if redis.call('HGET', KEYS.deployment, field) ~= covered then return 0 end
  fields[#fields + 1] = field
end
redis.call('HDEL', KEYS.deployment, unpack(fields))
return 1
