-- One step of enabling an endpoint. Each step releases some held calls, oldest first, and the last step enables the endpoint.
-- Until then the endpoint keeps its state, so new calls are held too, behind the older ones. If an operator disables or holds
-- the endpoint after the first step, the remaining steps release no calls and return 0. `line` is the line of the audit log
-- in the first step, and empty in the others. Returns how many held calls are left; -1 if the endpoint is already enabled and
-- holds none.
--@include "../redis/even-if-full.lua"
local prefix = ARGV.prefix .. ':'
--@include "./batch.lua"
--@include "../redis/audit/add-act.lua"
--@include "./note-resumed.lua"
--@include "./release-held.lua"
--@include "./new-intent.lua"
local stored = redis.call('HGET', KEYS.endpoints, ARGV.path)
if not stored and redis.call('EXISTS', prefix .. 'held:' .. ARGV.path) == 0 then return -1 end
local setting = stored and cjson.decode(stored)
if ARGV.line ~= '' then addAct(ARGV.line)
elseif setting and not setting.enabling then return 0 end
local left = releaseHeld(ARGV.path)
endBatch()
if left == 0 then
  redis.call('HDEL', KEYS.endpoints, ARGV.path)
  newIntent(KEYS.intents, now)
elseif setting and not setting.enabling then
  setting.enabling = true
  redis.call('HSET', KEYS.endpoints, ARGV.path, cjson.encode(setting))
end
return left
