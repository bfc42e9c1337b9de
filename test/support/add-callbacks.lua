-- ARGV prefix, data, ...calls(gate, queue, id)
local prefix = ARGV.prefix .. ':'
--@include "../../shared/queue/add.lua"
for i = FIRST.calls, #ARGV, WIDTH.calls do add(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV.data) end
endBatch()
