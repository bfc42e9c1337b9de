-- Moves refund cases to an export. Returns the number of moved cases, or 0 if the export already exists.
--
-- This script tests again that each case can be exported. Its call must be FAILED and still among the failed calls of its
-- queue, or DISCARDED. Its payment must be proven and not contradicted, or settled by an operator. If an attempt had an
-- effect or may have had one, the case is exported only with `effectUnknown` 1. The call of an exported case leaves its queue. The
-- keys of the case do not expire until the case is closed.
--
-- Among the keys of a case, `transfer` is the key of the transfer that paid for the call. Every case has the same number of keys:
-- for a key that it lacks, the caller passes `payment`. `line` is the case's audit line.
--
-- The settlements are decoded before the first write: a settlement that cannot be decoded ends the script, and Redis would
-- keep the writes before that.
--@include "../redis/even-if-full.lua"
--@include "../call/results/tell-change.lua"
--@include "../redis/audit/by-age.lua"
local prefix = ARGV.prefix .. ':'
--@include "../queue/drop-failed.lua"
if redis.call('EXISTS', KEYS.export) == 1 then return 0 end

local function isPaid(payment)
  local proven, reason, settlement = unpack(redis.call('HMGET', payment, 'proven', 'reason', 'settlement'))
  if not settlement then return false end
  return cjson.decode(settlement).by == 'operator' or (proven == '1' and not reason)
end

local function isCase(id, queue, record, payment)
  local st, unsure = unpack(redis.call('HMGET', record, 'st', 'unsure'))
  if st ~= 'DISCARDED' and not (st == 'FAILED' and redis.call('ZSCORE', prefix .. queue .. ':failed', id)) then return false end
  return (unsure == '0' or ARGV.effectUnknown == '1') and isPaid(payment)
end

-- Audit lines of the cases, by call id.
local lines, at = {}, FIRST.caseKeys
for i = FIRST.cases, #ARGV, WIDTH.cases do
  local id, queue, _, line = unpack(ARGV, i, i + WIDTH.cases - 1)
  local record, payment = unpack(KEYS, at, at + 1)
  at = at + WIDTH.caseKeys
  if isCase(id, queue, record, payment) then lines[id] = line end
end

local moved = 0
at = FIRST.caseKeys
for i = FIRST.cases, #ARGV, WIDTH.cases do
  local id, queue, row = unpack(ARGV, i, i + WIDTH.cases - 1)
  local record, payment, attempts, identifier, idempotencyKey, transfer = unpack(KEYS, at, at + WIDTH.caseKeys - 1)
  at = at + WIDTH.caseKeys
  if lines[id] then
    changeState(record, id, 'REFUND_PENDING', ARGV.now)
    redis.call('HSET', payment, 'refund', ARGV.refund)
    redis.call('HSETNX', payment, 'ended_at', ARGV.now)
    redis.call('HDEL', payment, 'call', 'request')
    for _, key in ipairs({record, payment, attempts, identifier, idempotencyKey, transfer}) do redis.call('PERSIST', key) end
    redis.call('ZREM', KEYS.due, id)
    redis.call('ZREM', KEYS.discarded, id)
    redis.call('ZREM', prefix .. 'since:' .. queue, id)
    dropFailed(queue, id)
    redis.call('ZADD', KEYS.refunds, ARGV.now, id)
    redis.call('RPUSH', KEYS.rows, row)
    addByAge(KEYS.money, lines[id])
    lines[id] = nil
    moved = moved + 1
  end
end
if moved > 0 then
  redis.call('HSET', KEYS.export, 'open', moved, 'at', ARGV.now, 'by', ARGV.by, 'network', ARGV.network)
end
return moved
