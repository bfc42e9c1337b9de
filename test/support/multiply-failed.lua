-- Copies all data of a failed call in Redis, each time under another id: the call itself, its record and its entry in
-- the index of failed calls. The copies go to the queue `to`, and `first` is the number of the first copy. Their
-- failures are `everyMs` apart.
local prefix, from, id, to = ARGV.prefix .. ':', ARGV.prefix .. ':' .. ARGV.queue .. ':', ARGV.id, ARGV.prefix .. ':' .. ARGV.to .. ':'
local failedAt = tonumber(redis.call('ZSCORE', from .. 'failed', id))
local job, record = redis.call('HGETALL', from .. id), redis.call('HGETALL', prefix .. 'call:' .. id)
-- Searches for plain text, because a pattern takes a second for a large body.
local function renamed(text, other)
  local parts, at = {}, 1
  for _ = 1, math.huge do
    local first, last = string.find(text, id, at, true)
    if not first then break end
    parts[#parts + 1], at = string.sub(text, at, first - 1) .. other, last + 1
  end
  return table.concat(parts) .. string.sub(text, at)
end
local function copy(fields, key, other)
  if #fields == 0 then return end
  local copied = {}
  for i, field in ipairs(fields) do copied[i] = renamed(field, other) end
  redis.call('HSET', key, unpack(copied))
end
redis.call('SADD', KEYS.registry, ARGV.to)
for n = tonumber(ARGV.first), ARGV.first + ARGV.count - 1 do
  local other = string.format('c_%08x%024x', n, 0)
  local at = string.format('%.0f', failedAt + n * ARGV.everyMs)
  copy(job, to .. other, other)
  redis.call('HSET', to .. other, 'finishedOn', at)
  copy(record, prefix .. 'call:' .. other, other)
  redis.call('ZADD', to .. 'failed', at, other)
end
