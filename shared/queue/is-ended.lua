-- Defines `isEnded(st)`: whether the state is final, so that neither an attempt nor a replay changes it.
local function isEnded(st)
  return st and string.find(RECORD.ended, ' ' .. st .. ' ', 1, true)
end
