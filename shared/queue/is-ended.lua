-- Defines `isEnded(st)`, which returns whether the state `st` of a call is final. Neither an attempt nor a replay changes a
-- final state.
local function isEnded(st)
  return st and string.find(RECORD.ended, ' ' .. st .. ' ', 1, true)
end
