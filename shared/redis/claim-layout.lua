-- KEYS layout
-- ARGV own
-- Answers the layout that is there. Writes only where there is none, so a full Redis can be asked.
local found = redis.call('GET', KEYS.layout)
if found then return found end
redis.call('SET', KEYS.layout, ARGV.own)
return ARGV.own
