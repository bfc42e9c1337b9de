-- Defines `add(gateName, name, id, data)`, which adds a call to a queue. `data` is the call as JSON. The script must define
-- `prefix`, and must call `endBatch()` after the last call is added.
--@include "./batch.lua"
--@include "./bullmqs-add.lua"
local function add(gateName, name, id, data)
  local q = opened(gateName, name)
  q.bytes = q.bytes + addCall(q, id, data)
  added(q, q.length)
end
