-- Defines `dropResult(id)`, which deletes the result of a call and returns whether there was one. Needs `prefix`.
--@include "../../redis/kept-values.lua"
local function dropResult(id)
  return drop(id, prefix .. 'result:' .. id, prefix .. 'results', prefix .. 'results:bytes') > 0
end
