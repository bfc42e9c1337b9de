-- Removes a call from the blocks at KEYS. `line` is the beginning of the call's lines. In the total size of the history, a
-- block still counts with its size before the removal. Returns the number of blocks that had the call.
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
