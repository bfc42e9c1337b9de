-- Defines `addByAge(stream, line)`, which adds a line to a stream of the audit log, and removes lines that are too old.
-- `line` is a JSON array of field names and values. Each addition removes only a few old lines, so that a clock that jumps
-- ahead does not empty the stream.
local function addByAge(stream, line)
  local oldest = string.format('%.0f', redis.call('TIME')[1] * 1000 - AUDIT.keptMs)
  redis.call('XADD', stream, 'MINID', '~', oldest, 'LIMIT', AUDIT.trimmedAtOnce, '*', unpack(cjson.decode(line)))
end
