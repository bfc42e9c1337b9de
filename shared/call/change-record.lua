-- Begins each change of the record of a call that was taken before. Defines `st`, the state in KEYS.record. Ends the script if no process
-- writes such a state.
--@include "../redis/even-if-full.lua"
local st = redis.call('HGET', KEYS.record, 'st')
if st and not (string.find(st, '^[A-Z_]+$') and string.find(RECORD.states, ' ' .. st .. ' ', 1, true)) then
  return redis.error_reply('UNREADABLE the record of the call')
end
