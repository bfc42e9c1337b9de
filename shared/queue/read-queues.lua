-- Answers a row for each queue.
--@include "./count.lua"
--@include "./oldest.lua"
local rows = {}
for i = FIRST.queues, #ARGV do
  local queue = ARGV[i]
  local q = ARGV.prefix .. ':' .. queue .. ':'
  rows[#rows + 1] = {queue, {count(q)}, oldest(queue, q)}
end
return rows
