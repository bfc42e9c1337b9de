-- Returns a row for each queue in ARGV (`ROW` in registry.ts). The last element is the time when the last of the queue's
-- delayed calls is due.
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
