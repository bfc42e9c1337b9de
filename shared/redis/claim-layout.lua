-- Answers the layout that is there. Writes only where there is none, so a full Redis can be asked. `sign` exists wherever a process has
-- written. With `refusesSign`, it writes nothing beside keys without a layout, and answers ''.
local found = redis.call('GET', KEYS.layout)
if found then return found end
if ARGV.refusesSign == '1' and redis.call('EXISTS', KEYS.sign) == 1 then return '' end
redis.call('SET', KEYS.layout, ARGV.own)
return ARGV.own
