-- Deletes all refused requests. `prefix` is the prefix of their keys. Returns the number of deleted requests.
--@include "./one-gateway.lua"
local gone = 0
for _, path in ipairs(redis.call('HKEYS', KEYS.rejected)) do
  gone = gone + redis.call('ZCARD', ARGV.prefix .. path)
  redis.call('UNLINK', ARGV.prefix .. path)
end
redis.call('DEL', KEYS.rejected)
return gone
