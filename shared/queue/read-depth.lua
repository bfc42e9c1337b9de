-- Returns the depth of all queues of one origin, as JSON. The answer is cached briefly, so that the load on Redis does not
-- grow with the number of gateways.
--@include "../redis/even-if-full.lua"
local kept = redis.call('GET', KEYS.kept)
if kept then return kept end
--@include "./oldest.lua"
--@include "./count.lua"
local function untried(queue, q)
  for i = 1, SCANNED_MAX do
    local id = redis.call('LINDEX', q .. 'wait', -i)
    if not id then return nil end
    if not redis.call('ZSCORE', ARGV.prefix .. ':since:' .. queue, id) then
      return tonumber(redis.call('HGET', q .. id, 'timestamp'))
    end
  end
end

local found = {waiting = 0, delayed = 0, held = 0, active = 0, failed = 0, bytes = 0, untried = {}, callbacks = 0, receivers = {}}
local sizes, receivers = redis.call('HGETALL', KEYS.bytes), {}
local ofCallbacks = '^' .. CALLBACKS_GATE .. '/[^/]*/[^/]*/(.*)'
for i = 1, #sizes, 2 do
  local bytes, receiver = tonumber(sizes[i + 1]), string.match(sizes[i], ofCallbacks)
  found.bytes = found.bytes + bytes
  if receiver then
    found.callbacks = found.callbacks + bytes
    receivers[receiver] = (receivers[receiver] or 0) + bytes
  end
end
for receiver, bytes in pairs(receivers) do
  if bytes > FEW_BYTES then found.receivers[receiver] = bytes end
end
local prefix = ARGV.origin .. '/'
for _, queue in ipairs(redis.call('SMEMBERS', KEYS.registry)) do
  if string.sub(queue, 1, #prefix) == prefix then
    local job = string.sub(queue, #prefix + 1)
    local q = ARGV.prefix .. ':' .. queue .. ':'
    local waiting, delayed, held, active, failed = count(q)
    found.waiting, found.delayed, found.held = found.waiting + waiting, found.delayed + delayed, found.held + held
    found.active, found.failed = found.active + active, found.failed + failed
    local first = tonumber(oldest(queue, q))
    if first and first < (found.oldestSince or math.huge) then found.oldestSince = first end
    if redis.call('HEXISTS', ARGV.prefix .. ':job:' .. job, 'paused') == 0 then found.untried[job] = untried(queue, q) end
  end
end
local json = cjson.encode(found)
redis.call('SET', KEYS.kept, json, 'PX', KEPT_MS)
return json
