-- Ends the case of a call that the runner took after the export, and changes the call to INJECTED. Returns 0, and changes
-- nothing, for any other call.
--@include "../call/change-record.lua"
--@include "./end-case.lua"
--@include "../call/results/tell-change.lua"
--@include "../redis/audit/by-age.lua"
local w, late = unpack(redis.call('HMGET', KEYS.record, 'w', 'late'))
if st ~= 'REFUND_PENDING' or not late then return 0 end
addByAge(KEYS.money, ARGV.line)
changeState(KEYS.record, ARGV.id, 'INJECTED', ARGV.now)
endCase(w)
return 1
