-- Returns a version for each call. This is a text that differs after the call's record, result or progress has changed.
local versions = {}
for i = FIRST.calls, #KEYS, WIDTH.calls do
  local record, result, progress = KEYS[i], KEYS[i + 1], KEYS[i + 2]
  local st, at, rs = unpack(redis.call('HMGET', record, 'st', 'at', 'rs'))
  local heads = redis.call('GETRANGE', result, 0, 63) .. ' ' .. redis.call('GETRANGE', progress, 0, 63)
  versions[#versions + 1] = table.concat({st or '', at or '', rs or '', heads}, ' ')
end
return versions
