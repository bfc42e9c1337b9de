-- Defines `endCase(w)`, which removes a refund case from the pending ones. `w` is the time in ms after which the keys of the
-- case expire. The keys of the export expire once its last case has ended. The including script needs the keys `record`,
-- `payment`, `attempts`, `identifier`, `idempotencyKey`, `paidBy`, `refunds`, `export` and `rows`, and the argument `id`.
local function endCase(w)
  for _, key in ipairs({KEYS.record, KEYS.payment, KEYS.attempts, KEYS.identifier, KEYS.idempotencyKey, KEYS.paidBy}) do
    redis.call('PEXPIRE', key, w)
  end
  redis.call('ZREM', KEYS.refunds, ARGV.id)
  if redis.call('HINCRBY', KEYS.export, 'open', -1) > 0 then return end
  redis.call('PEXPIRE', KEYS.export, w)
  redis.call('PEXPIRE', KEYS.rows, w)
end
