local prefix = ARGV.prefix .. ':'
--@include "../../shared/queue/add.lua"
for i = FIRST.calls, #ARGV, WIDTH.calls do
  local gate, queue, id = unpack(ARGV, i, i + WIDTH.calls - 1)
  add(gate, queue, id, ARGV.data)
end
endBatch()
