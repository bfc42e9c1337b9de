-- Deletes the oldest kept webhooks of one endpoint: the endpoint whose oldest webhook expires first. With the
-- endpoint's path, `index` makes the key of its list of kept webhooks, and `count` that of their total size. `prefix`
-- begins the key of each webhook. Returns the number of deleted webhooks.
--@include "./one-gateway.lua"
--@include "../redis/now.lua"
--@include "../redis/kept-values.lua"
local path, first
for _, each in ipairs(redis.call('SMEMBERS', KEYS.endpoints)) do
  local at = tonumber(redis.call('ZRANGE', ARGV.index .. each, 0, 0, 'WITHSCORES')[2])
  if at and (not first or at < first) then path, first = each, at end
end
if not path then return 0 end
local count = ARGV.count .. path
local kept = tonumber(redis.call('GET', count) or 0)
return (evict(ARGV.index .. path, count, ARGV.prefix, kept - ARGV.bytesToFree))
