-- Answers a row for each queue. `minutes` is how many minutes of metrics the rows have; with 0 they have neither
-- metrics nor the number of adds.
--@include "./count.lua"
local function ended(key)
  local m = redis.call('HMGET', key, 'count', 'prevTS', 'prevCount')
  return {m[1] or '0', m[2] or '0', m[3] or '0', redis.call('LRANGE', key .. ':data', 0, ARGV.minutes - 1)}
end
--@include "./oldest.lua"
local rows = {}
for i = FIRST.queues, #ARGV do
  local queue = ARGV[i]
  local q = ARGV.prefix .. ':' .. queue .. ':'
  local row = {queue, {count(q)}, oldest(queue, q)}
  if ARGV.minutes ~= '0' then
    row[4] = redis.call('GET', q .. 'id') or '0'
    row[5] = ended(q .. 'metrics:completed')
    row[6] = ended(q .. 'metrics:failed')
  end
  rows[#rows + 1] = row
end
return rows
