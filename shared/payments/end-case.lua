-- Defines `endCase(w)`, which takes the case of a refund off the pending ones. It needs KEYS record, payment, refunds,
-- export and rows; attempts, identifier, idempotencyKey and paidBy, which expire with the record; and ARGV id.
local function endCase(w)
  for _, key in ipairs({KEYS.record, KEYS.payment, KEYS.attempts, KEYS.identifier, KEYS.idempotencyKey, KEYS.paidBy}) do
    redis.call('PEXPIRE', key, w)
  end
  redis.call('ZREM', KEYS.refunds, ARGV.id)
  if redis.call('HINCRBY', KEYS.export, 'open', -1) > 0 then return end
  redis.call('PEXPIRE', KEYS.export, w)
  redis.call('PEXPIRE', KEYS.rows, w)
end
