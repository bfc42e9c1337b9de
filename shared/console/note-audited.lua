-- Records that an audit of payments has covered a network since the time `unaudited` (unix ms). While the deployment has
-- this field, no job is sold (unaudited.ts). Once all `networks` are covered, deletes the field, so that jobs are sold
-- again, and returns 1; else returns 0. Records nothing if `unaudited` or `adopted` has changed since the audit began:
-- the data was adopted again, so another audit is needed.
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
