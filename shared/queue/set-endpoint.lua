-- Disables or holds an endpoint. Answers 0 if it has this state already.
--@include "../redis/even-if-full.lua"
--@include "../redis/audit/add-act.lua"
local before = redis.call('HGET', KEYS.endpoints, ARGV.path)
if before and cjson.decode(before).state == ARGV.state then return 0 end
addAct(ARGV.line)
redis.call('HSET', KEYS.endpoints, ARGV.path, ARGV.setting)
return 1
