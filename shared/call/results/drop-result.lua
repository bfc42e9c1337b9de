-- Defines `dropResult(id)` alone, for a script that knows `prefix`. It returns whether there was something.
--@include "../../redis/kept-values.lua"
local function dropResult(id)
  return drop(id, prefix .. 'result:' .. id, prefix .. 'results', prefix .. 'results:bytes') > 0
end
