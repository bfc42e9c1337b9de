-- Defines `add(gateName, name, id, data)`, which adds a call to a queue. `data` is the call as JSON. A script that includes this
-- must define `prefix`, and must call `endBatch()` after it has added the last call.
--@include "./batch.lua"
--@include "./bullmqs-add.lua"
local function add(gateName, name, id, data)
  local q = opened(gateName, name)
  q.bytes = q.bytes + addCall(q, id, data)
  added(q, q.length)
end
