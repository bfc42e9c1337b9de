-- Voids a payment: if its state is one of `from`, changes the state to VOID and deletes the call's body. After that, the
-- payer's identifier and idempotency key, the caller's nonce and the quote can be used again. `decided` is an operator's
-- decision, and `line` the audit line; both may be empty. `dispatches` may be the number of settle requests that the caller
-- knows of. If another number was sent, changes nothing and returns nil. Otherwise returns the state found.
--@include "../call/change-record.lua"
--@include "../redis/now.lua"
--@include "./usage.lua"
--@include "../call/results/tell-change.lua"
--@include "../redis/audit/by-age.lua"
if ARGV.dispatches ~= '' and redis.call('HGET', KEYS.payment, 'dispatches') ~= ARGV.dispatches then return nil end
for i = FIRST.from, #ARGV do
  if st == ARGV[i] then
    if ARGV.line ~= '' then addByAge(KEYS.money, ARGV.line) end
    changeState(KEYS.record, ARGV.id, 'VOID', now)
    redis.call('HSET', KEYS.payment, 'reason', ARGV.reason, 'ended_at', now)
    if ARGV.decided ~= '' then redis.call('HSET', KEYS.payment, 'decided', ARGV.decided) end
    redis.call('HDEL', KEYS.payment, 'call', 'request')
    redis.call('PEXPIRE', KEYS.record, ARGV.keepMs)
    redis.call('PEXPIRE', KEYS.payment, ARGV.keepMs)
    redis.call('ZREM', KEYS.due, ARGV.id)
    redis.call('SREM', KEYS.open, ARGV.id)
    redis.call('ZREM', KEYS.unresolved, ARGV.id)
    redis.call('ZREM', KEYS.inReview, ARGV.id)
    releaseUsage(KEYS.usage, KEYS.usageBy, ARGV.id)
    for _, name in ipairs({KEYS.identifier, KEYS.idempotencyKey}) do
      if redis.call('HGET', name, 'id') == ARGV.id then redis.call('DEL', name) end
    end
    for _, used in ipairs({KEYS.callerNonce, KEYS.quote}) do
      if redis.call('GET', used) == ARGV.id then redis.call('DEL', used) end
    end
    break
  end
end
return st
