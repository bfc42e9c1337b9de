-- Records that an audit of payments has covered a network. After an operator has adopted old data, the deployment has the
-- field `unaudited`: the time (unix ms) since which payments may be missing. No job is sold until an audit has covered all
-- `networks` since that time (unaudited.ts). This script then deletes the field and returns 1; otherwise it returns 0.
-- Records nothing if `unaudited` or `adopted` (the time of the adoption) has changed since the audit began. Then the data
-- was adopted once more, and needs another audit.
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
