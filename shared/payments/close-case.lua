-- Closes a case with a transfer. A transfer closes only one case, and is remembered for good, because a case of the
-- same amount may stay open for any time. A case whose call the runner took after the export is left to an operator.
-- The same step counts the refund. Returns CLOSED, TRANSFER_TAKEN, or the state found.
--@include "../call/change-record.lua"
--@include "./end-case.lua"
--@include "../call/results/tell-change.lua"
--@include "../redis/audit/by-age.lua"
--@include "../telemetry/series/add-amounts.lua"
local w, late = unpack(redis.call('HMGET', KEYS.record, 'w', 'late'))
if st ~= 'REFUND_PENDING' or late then return st end
local by = redis.call('GET', KEYS.refundedBy)
if by and by ~= ARGV.id then return TRANSFER_TAKEN end
addByAge(KEYS.money, ARGV.line)
redis.call('SET', KEYS.refundedBy, ARGV.id)
changeState(KEYS.record, ARGV.id, 'REFUNDED', ARGV.now)
redis.call('HSET', KEYS.payment, 'refunded', ARGV.transfer)
endCase(w)
addAmounts(KEYS.refunded, {[ARGV.row] = {'1', ARGV.amount}})
return CLOSED
