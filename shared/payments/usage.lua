-- Defines functions that limit the memory for unsettled payments, because a client can send payments that never pay. A
-- payment counts from its claim until it is settled, void or dropped. Each of those steps subtracts the bytes that the claim
-- has stored under the payment's id, or nothing if none are stored. So the sums always match the stored payments.
--
-- `refusesUsage` lets a client use an eighth of `max`, times the square of the share of `max` that other clients leave free.
-- If n clients use as much as they may, 8/(n + 8) of `max` stays free. Without the square, only (7/8)^n would stay free, and
-- 60 clients would keep all others out.
local function refusesUsage(by, clients, bytes, max)
  if 8 * bytes > max then return 'TOO_LARGE' end
  local total = tonumber(redis.call('HGET', by, '*') or 0)
  for _, client in ipairs(clients) do
    local own = tonumber(redis.call('HGET', by, client) or 0)
    local left = math.max(0, 1 - (total - own) / max)
    if 8 * (own + bytes) > max * left * left then return own > 0 and 'CLIENT_FULL' or 'FULL' end
  end
end

local function addUsage(usage, by, id, clients, bytes)
  redis.call('HSET', usage, id, cjson.encode({bytes, unpack(clients)}))
  redis.call('HINCRBY', by, '*', bytes)
  for _, client in ipairs(clients) do redis.call('HINCRBY', by, client, bytes) end
end

local function releaseUsage(usage, by, id)
  local noted = redis.call('HGET', usage, id)
  if not noted then return end
  redis.call('HDEL', usage, id)
  local words = cjson.decode(noted)
  local bytes = words[1]
  words[1] = '*'
  for _, client in ipairs(words) do
    if redis.call('HINCRBY', by, client, -bytes) == 0 then redis.call('HDEL', by, client) end
  end
end
