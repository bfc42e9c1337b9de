-- Takes a call out of these blocks. `line` is how its lines begin. The size counted for a block stays. Answers how many blocks had the
-- call.
--@include "./without-call.lua"
local found = 0
for _, key in ipairs(KEYS) do
  local stored = redis.call('GET', key)
  local block, had = withoutCall(stored or '', ARGV.line)
  if had then
    redis.call('SET', key, block, 'KEEPTTL')
    found = found + 1
  end
end
return found
