-- Defines `addByAge(stream, line)`, which adds a line to a stream of the audit log that is trimmed only by age. `line` is a
-- JSON array of field names and values. Each line trims only a few others, so that a clock that jumps ahead does not empty
-- the stream.
local function addByAge(stream, line)
  local oldest = string.format('%.0f', redis.call('TIME')[1] * 1000 - AUDIT.keptMs)
  redis.call('XADD', stream, 'MINID', '~', oldest, 'LIMIT', AUDIT.trimmedAtOnce, '*', unpack(cjson.decode(line)))
end
