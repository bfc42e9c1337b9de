-- Defines `st`, the state in KEYS.record. Ends the script with an error if this release does not know the state. So each
-- script that changes the record of an existing call must include this before its first write.
--@include "../redis/even-if-full.lua"
local st = redis.call('HGET', KEYS.record, 'st')
if st and not (string.find(st, '^[A-Z_]+$') and string.find(RECORD.states, ' ' .. st .. ' ', 1, true)) then
  return redis.error_reply('UNREADABLE the record of the call')
end
