-- Defines `add(gateName, name, id, data)` for a script that knows `prefix`: it adds a call as stored to a queue. `endBatch()` ends the script.
--@include "./batch.lua"
--@include "./bullmqs-add.lua"
local function add(gateName, name, id, data)
  local q = opened(gateName, name)
  q.bytes = q.bytes + addCall(q, id, data)
  added(q, q.length)
end
