-- Defines `withoutCall(block, begin)`: a block without the lines of a call, which begin so, and whether it had one. A call that was taken
-- twice may have two.
local function withoutCall(block, begin)
  local from, had = string.find(block, '\n' .. begin, 1, true), false
  while from do
    block = string.sub(block, 1, from) .. string.sub(block, string.find(block, '\n', from + 1, true) + 1)
    from, had = string.find(block, '\n' .. begin, from, true), true
  end
  return block, had
end
