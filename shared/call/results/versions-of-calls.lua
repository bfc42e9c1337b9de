-- KEYS ...calls(record, result, progress)
-- Answers for each call a text that differs if any of its three keys does.
local versions = {}
for i = FIRST.calls, #KEYS, WIDTH.calls do
  local record = redis.call('HMGET', KEYS[i], 'st', 'at', 'rs')
  local heads = {redis.call('GETRANGE', KEYS[i + 1], 0, 63), redis.call('GETRANGE', KEYS[i + 2], 0, 63)}
  versions[#versions + 1] = table.concat({record[1] or '', record[2] or '', record[3] or '', unpack(heads)}, ' ')
end
return versions
