-- Enables an endpoint once none of its calls is held any longer. Each step releases some, the oldest first, and answers how many are left;
-- -1 if the endpoint is enabled and holds none. `line` is empty after the first step. Until the last step the endpoint stays as it was, so
-- calls that come meanwhile are held behind the others. A step releases none, and answers 0, if an operator has disabled or held the endpoint
-- since the first one.
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
