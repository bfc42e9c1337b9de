-- Defines `addAct(line)`, which adds a line to the audit log's stream of acts. `line` is a JSON array of field names and
-- values. The including script needs the keys `acts`, `repeats` and `actCount`. `actCount` counts the lines of this action by
-- this operator in a day.
--
-- Only the first lines of a day go to the acts. Further lines, for example of a loop or of a bulk operation, go to the
-- repeats, which keep a fixed number of shortened lines. So further lines can neither evict an act nor fill Redis.
--@include "./by-age.lua"
local function addAct(line)
  local count = redis.call('INCR', KEYS.actCount)
  if count == 1 then redis.call('PEXPIRE', KEYS.actCount, AUDIT.dayMs) end
  if count <= AUDIT.aDay then return addByAge(KEYS.acts, line) end
  local words = cjson.decode(line)
  for i, word in ipairs(words) do
    if #word > AUDIT.repeatBytes then
      -- Removes a multi-byte character that the cut has split.
      words[i] = string.gsub(string.sub(word, 1, AUDIT.repeatBytes), '[\192-\247][\128-\191]*$', '')
    end
  end
  redis.call('XADD', KEYS.repeats, 'MAXLEN', '~', AUDIT.repeatsKept, '*', unpack(words))
end
