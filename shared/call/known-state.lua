-- Ends the script if KEYS.record has a state that no process writes (STATES in record-state.ts).
local known = redis.call('HGET', KEYS.record, 'st')
if known and not (string.find(known, '^[A-Z_]+$')
  and string.find(' SETTLING VOID REVIEW QUEUED FAILED INJECTED DISCARDED REFUND_PENDING REFUNDED ', ' ' .. known .. ' ', 1, true)) then
  return redis.error_reply('UNREADABLE the record of the call')
end
