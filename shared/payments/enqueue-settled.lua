-- Records that a payment is settled: if its state is one of `from`, adds the call to its queue and changes the state to
-- QUEUED. If an operator has dropped the call, nothing is added and the state becomes DISCARDED, because the money must be
-- refunded. `line` is an operator's audit line, or empty. Returns the state found, CALL_DROPPED, or TRANSFER_TAKEN.
--@include "../call/change-record.lua"
--@include "./add-paid.lua"
--@include "./take-transfer.lua"
--@include "./usage.lua"
--@include "../redis/audit/by-age.lua"
for i = FIRST.from, #ARGV do
  if st == ARGV[i] then
    if ARGV.hasTransfer == '1' and not takeTransfer(KEYS.transfer, ARGV.id) then return TRANSFER_TAKEN end
    local isDropped = redis.call('HEXISTS', KEYS.payment, 'dropped') == 1
    local refused = not isDropped and addPaid(ARGV.settlement)
    if refused then return refused end
    if ARGV.line ~= '' then addByAge(KEYS.money, ARGV.line) end
    changeState(KEYS.record, ARGV.id, isDropped and 'DISCARDED' or 'QUEUED', now)
    redis.call('HSET', KEYS.payment, 'settlement', ARGV.settlement, 'proven', ARGV.proven, 'settled_at', now)
    redis.call('ZADD', KEYS.due, now + ARGV.dueInMs, ARGV.id)
    if isDropped then redis.call('ZADD', KEYS.discarded, now, ARGV.id) end
    redis.call('SREM', KEYS.open, ARGV.id)
    redis.call('ZREM', KEYS.unresolved, ARGV.id)
    redis.call('ZREM', KEYS.inReview, ARGV.id)
    releaseUsage(KEYS.usage, KEYS.usageBy, ARGV.id)
    return isDropped and CALL_DROPPED or st
  end
end
return st
