-- Enables an endpoint once none of its calls is held any longer. Each step releases some, the oldest first, and answers how many are left;
-- -1 if the endpoint is enabled and holds none. `line` is empty after the first step. Until the last step the endpoint stays as it was, so
-- calls that come meanwhile are held behind the others. A step releases none, and answers 0, if an operator has disabled or held the endpoint
-- since the first one.
--@include "../redis/even-if-full.lua"
local prefix = ARGV.prefix .. ':'
--@include "./batch.lua"
--@include "../redis/audit/add-act.lua"
--@include "./note-resumed.lua"
local held = redis.call('LRANGE', KEYS.held, 0, RELEASED_AT_ONCE - 1)
local stored = redis.call('HGET', KEYS.endpoints, ARGV.path)
if #held == 0 and not stored then return -1 end
local setting = stored and cjson.decode(stored)
if ARGV.line ~= '' then addAct(ARGV.line)
elseif setting and not setting.enabling then return 0 end
for _, entry in ipairs(held) do
  local name, id = string.match(entry, '^(%S+) (.*)')
  local q = opened(string.match(name, '/(.*)'), name)
  if redis.call('ZREM', q.jobs .. 'delayed', id) == 1 then
    redis.call('LPUSH', q.wait, id)
    if not q.tells then noteResumed(KEYS.resumed, q.gate, now) end
    q.tells = true
  end
end
redis.call('LTRIM', KEYS.held, #held, -1)
endBatch()
local left = redis.call('LLEN', KEYS.held)
if left == 0 then redis.call('HDEL', KEYS.endpoints, ARGV.path)
elseif setting and not setting.enabling then
  setting.enabling = true
  redis.call('HSET', KEYS.endpoints, ARGV.path, cjson.encode(setting))
end
return left
