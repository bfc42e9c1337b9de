import { EVEN_IF_FULL } from "../redis/script.ts";
import { unlessNewer, VERSIONS } from "../redis/version.ts";
import { tellChange } from "../results/keep-result.ts";
import { TRANSFER_TAKEN } from "./scripts.ts";

/*
 * What happens to a refund, each change in one script. An export moves all its cases at once, so that none is ever in two exports, and
 * none outside of the one that it was moved for.
 */

/** How many KEYS and how many words of ARGV each case of an export has. */
export const CASE_KEYS = 9;
export const CASE_WORDS = 4;

/**
 * KEYS export, rows, refunds, due, bytes, audit; then for each case: record, payment, attempts, identifier, idempotency key, transfer that
 * paid, since, failed, the call in its queue. A key that a case does not have repeats its payment. ARGV now, refund, whether an unknown effect
 * will do, then the fields of the export and their number; then for each case: id, queue, row, and what XADD takes for its line of the audit,
 * as a JSON array of strings.
 *
 * A case is looked at once more here: it is FAILED and lies among the failed calls, or DISCARDED; it is paid for sure; and its effect is
 * known, if that is asked for. It leaves its queue, and lives until it is closed. Answers how many were moved, and 0 if the export was made
 * before.
 */
export const EXPORT = `${EVEN_IF_FULL}
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end

local function isPaid(payment)
  local proven, reason, settlement, v = unpack(redis.call('HMGET', payment, 'proven', 'reason', 'settlement', 'v'))
  if not settlement or tonumber(v or 1) > ${VERSIONS.payment} then return false end
  return cjson.decode(settlement).by == 'operator' or (proven == '1' and not reason)
end

local function isCase(id, record, payment, failed)
  local st, unsure, v = unpack(redis.call('HMGET', record, 'st', 'unsure', 'v'))
  if tonumber(v or 1) > ${VERSIONS.record} then return false end
  if st ~= 'DISCARDED' and not (st == 'FAILED' and redis.call('ZSCORE', failed, id)) then return false end
  return (unsure == '0' or ARGV[3] == '1') and isPaid(payment)
end

local first, moved = 5 + ARGV[4], 0
for i = first, #ARGV, ${CASE_WORDS} do
  local id, queue, row, line = unpack(ARGV, i, i + ${CASE_WORDS - 1})
  local at = 6 + (i - first) / ${CASE_WORDS} * ${CASE_KEYS}
  local record, payment, attempts, identifier, idempotencyKey, transfer, since, failed, job = unpack(KEYS, at + 1, at + ${CASE_KEYS})
  if isCase(id, record, payment, failed) then
    redis.call('HSET', record, 'st', 'REFUND_PENDING', 'at', ARGV[1], 'v', ${VERSIONS.record})
    ${tellChange("id")}
    redis.call('HSET', payment, 'refund', ARGV[2])
    redis.call('HSETNX', payment, 'ended_at', ARGV[1])
    redis.call('HDEL', payment, 'call', 'request')
    for _, key in ipairs({record, payment, attempts, identifier, idempotencyKey, transfer}) do redis.call('PERSIST', key) end
    redis.call('ZREM', KEYS[4], id)
    redis.call('ZREM', since, id)
    if redis.call('ZREM', failed, id) == 1 then
      redis.call('HINCRBY', KEYS[5], queue, -redis.call('HSTRLEN', job, 'data'))
      redis.call('DEL', job)
    end
    redis.call('ZADD', KEYS[3], ARGV[1], id)
    redis.call('RPUSH', KEYS[2], row)
    redis.call('XADD', KEYS[6], unpack(cjson.decode(line)))
    moved = moved + 1
  end
end
if moved > 0 then redis.call('HSET', KEYS[1], 'open', moved, unpack(ARGV, 5, 4 + ARGV[4])) end
return moved`;

/** What CLOSE answers. */
export const CLOSED = "CLOSED";

/**
 * Lua with a function that takes a case off the pending ones. KEYS record, payment, refunds, export, rows; then what expires with the
 * record: attempts, identifier, idempotency key, transfer that paid. ARGV id.
 */
const END_CASE = `
local function endCase(w)
  for _, key in ipairs({KEYS[1], KEYS[2], unpack(KEYS, 6, 9)}) do redis.call('PEXPIRE', key, w) end
  redis.call('ZREM', KEYS[3], ARGV[1])
  if redis.call('HINCRBY', KEYS[4], 'open', -1) > 0 then return end
  redis.call('PEXPIRE', KEYS[4], w)
  redis.call('PEXPIRE', KEYS[5], w)
end`;

/**
 * KEYS those of END_CASE, transfer that refunds. ARGV id, now, transfer. A transfer closes one case, and is remembered for good, since a
 * case of the same sum may stay open for any time. One whose call the runner took after the export is left to an operator. Answers CLOSED,
 * TRANSFER_TAKEN, or the state found.
 */
export const CLOSE = `${EVEN_IF_FULL}${unlessNewer("record")}${END_CASE}
local st, w, late = unpack(redis.call('HMGET', KEYS[1], 'st', 'w', 'late'))
if st ~= 'REFUND_PENDING' or late then return st end
local by = redis.call('GET', KEYS[10])
if by and by ~= ARGV[1] then return '${TRANSFER_TAKEN}' end
redis.call('SET', KEYS[10], ARGV[1])
redis.call('HSET', KEYS[1], 'st', 'REFUNDED', 'at', ARGV[2])
${tellChange("ARGV[1]")}
redis.call('HSET', KEYS[2], 'refunded', ARGV[3])
endCase(w)
return '${CLOSED}'`;

/**
 * KEYS those of END_CASE. ARGV id, now. A call that the runner took after its export is INJECTED, and its case is none any more. Answers
 * whether it was such a call.
 */
export const WITHDRAW = `${EVEN_IF_FULL}${unlessNewer("record")}${END_CASE}
local st, w, late = unpack(redis.call('HMGET', KEYS[1], 'st', 'w', 'late'))
if st ~= 'REFUND_PENDING' or not late then return 0 end
redis.call('HSET', KEYS[1], 'st', 'INJECTED', 'at', ARGV[2])
${tellChange("ARGV[1]")}
endCase(w)
return 1`;
