-- Takes a call out of these blocks. `line` is how its line begins. The size counted for a block stays. Answers how many blocks had the
-- call.
local found = 0
for _, key in ipairs(KEYS) do
  local block = redis.call('GET', key)
  local from = block and string.find(block, '\n' .. ARGV.line, 1, true)
  if from then
    block = string.sub(block, 1, from) .. string.sub(block, string.find(block, '\n', from + 1, true) + 1)
    redis.call('SET', key, block, 'KEEPTTL')
    found = found + 1
  end
end
return found
