-- Closes a refund case with a transfer that the chain has shown, and counts the refund. A transfer can close only one case.
-- It is remembered forever, because another case of the same amount may stay open for any time. If the runner took the case's
-- call after the export (`late`), an operator must decide, and the script closes nothing. Returns CLOSED, TRANSFER_TAKEN, or
-- the state found.
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
