-- Claims the layout of the data for a process that is about to write, and returns the layout that the data has afterwards. If
-- the data has no layout, writes the layout of the process. If the process has durability `replicated` and the stored layout
-- does not say so, adds `durability` to it. Otherwise writes nothing, so that even a full Redis runs the script.
--
-- The key `sign` exists once a process has written data. `wants` counts only if the data has no layout: it can require that
-- `sign` is 'absent' or 'present'. If this requirement is not met, returns 'refused' and writes nothing.
local found = redis.call('GET', KEYS.layout)
if found then
  local isJson, stored = pcall(cjson.decode, found)
  local isOwn = isJson and type(stored) == 'table' and stored.layout == tonumber(ARGV.layout)
  if ARGV.replicated == '1' and isOwn and not stored.durability then
    stored.durability = 'replicated'
    found = cjson.encode(stored)
    redis.call('SET', KEYS.layout, found)
  end
  return found
end
if ARGV.wants == 'absent' and redis.call('EXISTS', KEYS.sign) == 1 then return 'refused' end
if ARGV.wants == 'present' and redis.call('HLEN', KEYS.sign) == 0 then return 'refused' end
redis.call('SET', KEYS.layout, ARGV.own)
return ARGV.own
