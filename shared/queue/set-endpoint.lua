-- Disables or holds an endpoint. Returns 0 if it already has this state. Another process may be enabling the endpoint step by
-- step (enable-endpoint.lua). Its remaining steps then change nothing.
--@include "../redis/even-if-full.lua"
--@include "../redis/now.lua"
--@include "../redis/audit/add-act.lua"
--@include "./new-intent.lua"
local stored = redis.call('HGET', KEYS.endpoints, ARGV.path)
local before = stored and cjson.decode(stored) or {}
if before.state == ARGV.state and not before.enabling then return 0 end
addAct(ARGV.line)
redis.call('HSET', KEYS.endpoints, ARGV.path, ARGV.setting)
newIntent(KEYS.intents, now)
return 1
