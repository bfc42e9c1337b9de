-- Notes that an audit of a network covers the unaudited time that was read before it as `unaudited` and `adopted`. Once all `networks` are
-- covered, jobs are sold again, and it answers 1.
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
