-- KEYS record, payment, refunds, export, rows, attempts, identifier, idempotencyKey, paidBy, refundedBy
-- ARGV id, now, transfer
-- A transfer closes one case. It is remembered for good, because a case of the same sum may stay open for any time. A
-- case whose call the runner took after the export is left to an operator. Answers CLOSED, TRANSFER_TAKEN, or the state
-- found.
--@include "../queue/change-record.lua"
--@include "./end-case.lua"
--@include "../results/tell-change.lua"
local st, w, late = unpack(redis.call('HMGET', KEYS.record, 'st', 'w', 'late'))
if st ~= 'REFUND_PENDING' or late then return st end
local by = redis.call('GET', KEYS.refundedBy)
if by and by ~= ARGV.id then return TRANSFER_TAKEN end
redis.call('SET', KEYS.refundedBy, ARGV.id)
redis.call('HSET', KEYS.record, 'st', 'REFUNDED', 'at', ARGV.now)
tellChange(ARGV.id)
redis.call('HSET', KEYS.payment, 'refunded', ARGV.transfer)
endCase(w)
return CLOSED
