-- Deletes all refused requests. `prefix` is how their keys begin. Answers how many there were.
--@include "./one-gateway.lua"
local gone = 0
for _, path in ipairs(redis.call('HKEYS', KEYS.rejected)) do
  gone = gone + redis.call('ZCARD', ARGV.prefix .. path)
  redis.call('UNLINK', ARGV.prefix .. path)
end
redis.call('DEL', KEYS.rejected)
return gone
