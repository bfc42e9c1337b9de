-- Answers the layout that is there. Writes only where there is none, so a full Redis can be asked, and when the first process that is
-- `replicated` comes to its own layout. `sign` exists wherever a process has written. If `wants` is 'absent', it writes nothing beside keys
-- without a layout, and if it is 'present', nothing to a Redis that has lost its data. Then it answers 'refused'.
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
