-- Defines `isEnded(st)`: whether no attempt and no replay leaves this state.
local function isEnded(st)
  return st and string.find(RECORD.ended, ' ' .. st .. ' ', 1, true)
end
