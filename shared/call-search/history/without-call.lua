-- Defines `withoutCall(block, begin)`: removes the lines of a call from a block. Returns the block, and whether it had such
-- a line. `begin` is the beginning of these lines. A call that was injected twice may have two lines.
local function withoutCall(block, begin)
  local from, had = string.find(block, '\n' .. begin, 1, true), false
  while from do
    block = string.sub(block, 1, from) .. string.sub(block, string.find(block, '\n', from + 1, true) + 1)
    from, had = string.find(block, '\n' .. begin, from, true), true
  end
  return block, had
end
