-- Returns a row for each queue, as registry.ts describes it. A row ends with the due time of the last delayed call.
--@include "./count.lua"
--@include "./oldest.lua"
local rows = {}
for i = FIRST.queues, #ARGV do
  local queue = ARGV[i]
  local q = ARGV.prefix .. ':' .. queue .. ':'
  local last = redis.call('ZREVRANGEBYSCORE', q .. 'delayed', '(' .. heldScore, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local dueAt = last[2] and string.format('%.0f', math.floor(tonumber(last[2]) / 0x1000)) or ''
  rows[#rows + 1] = {queue, {count(q)}, oldest(queue, q), waitingSince(queue, q), dueAt}
end
return rows
