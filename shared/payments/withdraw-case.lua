-- Ends the refund case of a call that the runner took after the export, without a refund: the call becomes INJECTED. For any
-- other call, returns 0 and changes nothing.
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
