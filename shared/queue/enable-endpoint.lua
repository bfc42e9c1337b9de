-- Enables an endpoint once none of its calls is held any longer. Each step releases some, the oldest first, and answers how many are left;
-- -1 if the endpoint is enabled and holds none. `line` is empty after the first step. Until the last step the endpoint stays as it was, so
-- calls that come meanwhile are held behind the others.
--@include "../redis/even-if-full.lua"
local prefix = ARGV.prefix .. ':'
--@include "./batch.lua"
--@include "../redis/audit/add-act.lua"
--@include "./note-resumed.lua"
local held = redis.call('LRANGE', KEYS.held, 0, RELEASED_AT_ONCE - 1)
if #held == 0 and redis.call('HEXISTS', KEYS.endpoints, ARGV.path) == 0 then return -1 end
if ARGV.line ~= '' then addAct(ARGV.line) end
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
if left == 0 then redis.call('HDEL', KEYS.endpoints, ARGV.path) end
return left
