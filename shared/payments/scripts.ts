import { X402_TRANSACTION } from "../job-call/job-call.ts";
import { addLua } from "../queue/scripts.ts";
import { EVEN_IF_FULL, NOW } from "../redis/script.ts";
import { refuseNewer, unlessNewer, VERSIONS } from "../redis/version.ts";
import { tellChange } from "../results/keep-result.ts";

/*
 * Every change of a payment is one script, so that nothing comes between check and change. KEYS[1] is the call's record and
 * KEYS[2] its payment; the record's `st` is the state of both. None of them changes what a later release wrote. A full Redis refuses
 * a claim, and nothing that follows it.
 *
 * Every time that they write, and every age that they compare, is by Redis' clock: no gateway's clock decides when a payment is due or how
 * old a claim is. The chain's times are not in them.
 */

/** What Redis and the reconciler need for a payment beside its fields. It also bounds how many small ones are unsettled. */
const USAGE_BASE_BYTES = 16 * 1024;

/**
 * Lua with what bounds the unsettled payments, which may never pay. A payment counts from its claim until it is settled, void or
 * dropped; each of those steps takes off what the claim has noted under the payment's id, and nothing if nothing is there. So the
 * sums are always those of the payments noted.
 *
 * If others use nothing, a client may use an eighth of `max`. If they leave a part of it, he may use the square of that part of the
 * eighth. So n clients who take all they can get leave 8/(n + 8) of `max`; with the part itself in place of its square they would leave
 * (7/8)^n, and 60 of them would keep all others out.
 */
const USAGE = `
local function refusesUsage(by, clients, bytes, max)
  if 8 * bytes > max then return 'TOO_LARGE' end
  local total = tonumber(redis.call('HGET', by, '*') or 0)
  for _, client in ipairs(clients) do
    local own = tonumber(redis.call('HGET', by, client) or 0)
    local left = math.max(0, 1 - (total - own) / max)
    if 8 * (own + bytes) > max * left * left then return own > 0 and 'CLIENT_FULL' or 'FULL' end
  end
end

local function addUsage(usage, by, id, clients, bytes)
  redis.call('HSET', usage, id, cjson.encode({bytes, unpack(clients)}))
  redis.call('HINCRBY', by, '*', bytes)
  for _, client in ipairs(clients) do redis.call('HINCRBY', by, client, bytes) end
end

local function releaseUsage(usage, by, id)
  local noted = redis.call('HGET', usage, id)
  if not noted then return end
  redis.call('HDEL', usage, id)
  local words = cjson.decode(noted)
  local bytes = words[1]
  words[1] = '*'
  for _, client in ipairs(words) do
    if redis.call('HINCRBY', by, client, -bytes) == 0 then redis.call('HDEL', by, client) end
  end
end`;

/**
 * KEYS record, payment, due, payments, open, identifier, nonce, unresolved, quote, idempotency key, usage, usage by client,
 * mark of a drain. ARGV id, body sha256, route, due in ms, window ms, by, most open payments, until when the nonce is
 * remembered (unix ms; 0: no nonce), the same of the quote, clients as JSON, most bytes of all unsettled payments, then the
 * payment's fields. A known payment is answered before any limit is tested. An identifier or an idempotency key that it does
 * not have repeats the payment. Names that stand for two calls, one of which may be the call that used up the quote, are
 * refused. A nonce or quote that can no longer be remembered is refused as expired, whatever the gateway's clock said: else it
 * could be used again. NEW comes with how many ms ago the payment was claimed.
 */
export const CLAIM = `${NOW}${USAGE}
local id, bh, rt = ARGV[1], ARGV[2], ARGV[3]
local known = redis.call('HMGET', KEYS[1], 'st', 'bh', 'rt', 'by', 'v')
if known[1] then${refuseNewer("record", "known[5]")}
  if known[2] ~= bh or known[3] ~= rt then return {'CONFLICT'} end
  local isOwn = known[4] == ARGV[6] and known[1] == 'SETTLING'
  local claimedAt, dropped = unpack(redis.call('HMGET', KEYS[2], 'claimed_at', 'dropped'))
  if isOwn and not dropped then return {'NEW', now - claimedAt} end
  return {'KNOWN', id}
end
local names, named = {KEYS[6], KEYS[10]}, nil
for _, name in ipairs(names) do
  local same = name == KEYS[2] and {} or redis.call('HMGET', name, 'id', 'bh', 'rt', 'v')
  if same[1] then${refuseNewer("identifier", "same[4]")}
    if same[2] ~= bh or same[3] ~= rt or (named and named ~= same[1]) then return {'IDENTIFIER_CONFLICT'} end
    named = same[1]
  end
end
local quoted = ARGV[9] ~= '0' and redis.call('GET', KEYS[9])
if named and quoted and quoted ~= named then return {'IDENTIFIER_CONFLICT'} end
if named then return {'KNOWN', named} end
if redis.call('EXISTS', KEYS[13]) == 1 then return {'DRAINED'} end
if redis.call('SCARD', KEYS[5]) >= tonumber(ARGV[7]) then return {'TOO_MANY_OPEN'} end
local nonceMs, quoteMs = ARGV[8] - now, ARGV[9] - now
if ARGV[8] ~= '0' and redis.call('EXISTS', KEYS[7]) == 1 then return {'NONCE_USED'} end
if ARGV[8] ~= '0' and nonceMs <= 0 then return {'NONCE_EXPIRED'} end
if quoted then return {'QUOTE_USED'} end
if ARGV[9] ~= '0' and quoteMs <= 0 then return {'QUOTE_EXPIRED'} end
local clients, bytes = cjson.decode(ARGV[10]), ${USAGE_BASE_BYTES}
for i = 12, #ARGV do bytes = bytes + #ARGV[i] end
local refused = refusesUsage(KEYS[12], clients, bytes, tonumber(ARGV[11]))
if refused then return {refused} end
addUsage(KEYS[11], KEYS[12], id, clients, bytes)
redis.call('HSET', KEYS[1], 'v', ${VERSIONS.record}, 'st', 'SETTLING', 'unsure', 0, 'bh', bh, 'rt', rt, 'w', ARGV[5], 'at', now, 'by', ARGV[6])
redis.call('HSET', KEYS[2], 'claimed_at', now, 'dispatched_at', now, unpack(ARGV, 12))
redis.call('ZADD', KEYS[3], now + ARGV[4], id)
redis.call('ZADD', KEYS[4], now, id)
redis.call('ZADD', KEYS[8], now, id)
redis.call('SADD', KEYS[5], id)
for _, name in ipairs(names) do
  if name ~= KEYS[2] then redis.call('HSET', name, 'v', ${VERSIONS.identifier}, 'id', id, 'bh', bh, 'rt', rt) end
end
if ARGV[8] ~= '0' then redis.call('SET', KEYS[7], id, 'PX', nonceMs) end
if ARGV[9] ~= '0' then redis.call('SET', KEYS[9], id, 'PX', quoteMs) end
return {'NEW', 0}`;

/** KEYS record, payment. Answers the record's fields, the payment's, and the time. */
export const READ = `${NOW}
return {redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]), now}`;

/** KEYS record, payment. Like READ, with the size of the call, `call_bytes`, in place of the call. */
export const LOOK = `${NOW}
local names = redis.call('HKEYS', KEYS[2])
local fields = {'call_bytes', redis.call('HSTRLEN', KEYS[2], 'call')}
for _, name in ipairs(names) do
  if name ~= 'call' then
    fields[#fields + 1] = name
    fields[#fields + 1] = redis.call('HGET', KEYS[2], name)
  end
end
return {redis.call('HGETALL', KEYS[1]), fields, now}`;

/**
 * Lua with a function that adds the call which a payment keeps, and puts the transaction of its settlement among the metadata. What
 * stands before the metadata (job-call.ts) nobody outside has a say in. It needs ARGV prefix, job, queue, id, and answers with an
 * error if a later release wrote the call.
 */
const ADD_PAID = () => `
local prefix = ARGV[1] .. ':'
${addLua()}
local function addPaid(settlement)
  local call = redis.call('HGET', KEYS[2], 'call')${refuseNewer("call", `string.match(call, '^{"v":(%d+)')`).replaceAll("\n", "\n  ")}
  local _, at = string.find(call, '"metadata":{', 1, true)
  local transaction = '"${X402_TRANSACTION}":' .. cjson.encode(cjson.decode(settlement).transaction)
  local comma = string.sub(call, at + 1, at + 1) == '}' and '' or ','
  add(ARGV[2], ARGV[3], ARGV[4], string.sub(call, 1, at) .. transaction .. comma .. string.sub(call, at + 1))
  endBatch()
end`;

/** What ENQUEUE_SETTLED answers for a payment whose call was dropped: it is paid, and its call is DISCARDED. */
export const CALL_DROPPED = "CALL_DROPPED";

/** What a script answers, and changes nothing, if the transfer pays for another call already. */
export const TRANSFER_TAKEN = "TRANSFER_TAKEN";

/** Lua with a function that takes a transfer for a call, under the transfer's key. False if it pays for another one. */
const TAKE_TRANSFER = `
local function takeTransfer(key, id)
  local by = redis.call('GET', key)
  if by and by ~= id then return false end
  if not by then redis.call('SET', key, id) end
  return true
end`;

/**
 * KEYS record, payment, due, open, unresolved, in review, transfer, usage, usage by client. ARGV prefix, job, queue, id, due in ms,
 * settlement, proven, has transfer, from states... Adds the call, and changes one of these states to QUEUED. If an operator has dropped the
 * call, nothing is added and the state becomes DISCARDED: the money is due back. Answers the state found, or CALL_DROPPED.
 */
export const ENQUEUE_SETTLED =
  () => `${EVEN_IF_FULL}${unlessNewer("record")}${ADD_PAID()}${TAKE_TRANSFER}${USAGE}
local st = redis.call('HGET', KEYS[1], 'st')
for i = 9, #ARGV do
  if st == ARGV[i] then
    if ARGV[8] == '1' and not takeTransfer(KEYS[7], ARGV[4]) then return '${TRANSFER_TAKEN}' end
    local isDropped = redis.call('HEXISTS', KEYS[2], 'dropped') == 1
    local refused = not isDropped and addPaid(ARGV[6])
    if refused then return refused end
    redis.call('HSET', KEYS[1], 'st', isDropped and 'DISCARDED' or 'QUEUED', 'at', now)
    ${tellChange("ARGV[4]")}
    redis.call('HSET', KEYS[2], 'settlement', ARGV[6], 'proven', ARGV[7], 'settled_at', now)
    redis.call('ZADD', KEYS[3], now + ARGV[5], ARGV[4])
    redis.call('SREM', KEYS[4], ARGV[4])
    redis.call('ZREM', KEYS[5], ARGV[4])
    redis.call('ZREM', KEYS[6], ARGV[4])
    releaseUsage(KEYS[8], KEYS[9], ARGV[4])
    return isDropped and '${CALL_DROPPED}' or st
  end
end
return st`;

/** KEYS record, payment. ARGV prefix, job, queue, id. Adds the call of a QUEUED payment again. Answers the state found. */
export const ENQUEUE_AGAIN = () => `${EVEN_IF_FULL}${unlessNewer("record")}${ADD_PAID()}
local st = redis.call('HGET', KEYS[1], 'st')
local refused = st == 'QUEUED' and addPaid(redis.call('HGET', KEYS[2], 'settlement'))
return refused or st`;

/**
 * KEYS record, payment, due, open, identifier, unresolved, in review, caller nonce, quote, idempotency key, usage, usage by client.
 * ARGV id, ms to live, reason, operator's decision or "", settle requests sent or "", from states... Changes one of these states to
 * VOID and drops the body; the payer's identifier and idempotency key, the caller's nonce and the quote can be used again. Answers the state found;
 * nil if another number of settle requests was sent.
 */
export const VOID = `${EVEN_IF_FULL}${unlessNewer("record")}${NOW}${USAGE}
local st = redis.call('HGET', KEYS[1], 'st')
if ARGV[5] ~= '' and redis.call('HGET', KEYS[2], 'dispatches') ~= ARGV[5] then return nil end
for i = 6, #ARGV do
  if st == ARGV[i] then
    redis.call('HSET', KEYS[1], 'st', 'VOID', 'at', now)
    ${tellChange("ARGV[1]")}
    redis.call('HSET', KEYS[2], 'reason', ARGV[3], 'ended_at', now)
    if ARGV[4] ~= '' then redis.call('HSET', KEYS[2], 'decided', ARGV[4]) end
    redis.call('HDEL', KEYS[2], 'call', 'request')
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
    redis.call('ZREM', KEYS[3], ARGV[1])
    redis.call('SREM', KEYS[4], ARGV[1])
    redis.call('ZREM', KEYS[6], ARGV[1])
    redis.call('ZREM', KEYS[7], ARGV[1])
    releaseUsage(KEYS[11], KEYS[12], ARGV[1])
    for _, name in ipairs({KEYS[5], KEYS[10]}) do
      if redis.call('HGET', name, 'id') == ARGV[1] then redis.call('DEL', name) end
    end
    for k = 8, 9 do
      if redis.call('GET', KEYS[k]) == ARGV[1] then redis.call('DEL', KEYS[k]) end
    end
    break
  end
end
return st`;

/**
 * KEYS record, payment, due, unresolved, in review. ARGV id, reason. Changes SETTLING to REVIEW; the payment still counts
 * as open. Answers the state found.
 */
export const REVIEW = `${EVEN_IF_FULL}${unlessNewer("record")}${NOW}
local st = redis.call('HGET', KEYS[1], 'st')
if st == 'SETTLING' then
  redis.call('HSET', KEYS[1], 'st', 'REVIEW', 'at', now)
  ${tellChange("ARGV[1]")}
  redis.call('HSET', KEYS[2], 'reason', ARGV[2])
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('ZADD', KEYS[5], redis.call('ZSCORE', KEYS[4], ARGV[1]) or now, ARGV[1])
  redis.call('ZREM', KEYS[4], ARGV[1])
end
return st`;

/** What DROP answers. */
export const DROPPED = "DROPPED";

/**
 * KEYS record, payment, usage, usage by client, audit. ARGV id, operator's decision, then what XADD takes. Drops the body of a payment
 * whose outcome is open, and what a settle needs, so that no settle is sent any more. The payment counts for its client no longer.
 * Answers DROPPED, or the state found.
 */
export const DROP = `${EVEN_IF_FULL}${unlessNewer("record")}${USAGE}
local st = redis.call('HGET', KEYS[1], 'st')
if st ~= 'SETTLING' and st ~= 'REVIEW' then return st end
if redis.call('HSETNX', KEYS[2], 'dropped', ARGV[2]) == 1 then
  redis.call('HDEL', KEYS[2], 'call', 'request')
  releaseUsage(KEYS[3], KEYS[4], ARGV[1])
  redis.call('XADD', KEYS[5], unpack(ARGV, 3))
end
return '${DROPPED}'`;

/**
 * KEYS record, payment, due, payments, unresolved, in review, usage, usage by client. ARGV id, prefix of the sets of open payments.
 * Takes a payment without a record off every list.
 */
export const FORGET = `${EVEN_IF_FULL}${USAGE}
if redis.call('EXISTS', KEYS[1]) == 1 then return end
releaseUsage(KEYS[7], KEYS[8], ARGV[1])
for k = 3, 6 do redis.call('ZREM', KEYS[k], ARGV[1]) end
local ok, terms = pcall(cjson.decode, redis.call('HGET', KEYS[2], 'terms') or '')
if ok and type(terms) == 'table' and terms.payer then redis.call('SREM', ARGV[2] .. terms.payer, ARGV[1]) end`;

/**
 * KEYS record, payment. ARGV how many ms after its claim a payment is too old. Counts a settle request that is about to be sent again.
 * Answers whether it may be sent: the payment is SETTLING and not too old, and no operator has dropped its call.
 */
export const DISPATCHING = `${EVEN_IF_FULL}${unlessNewer("record")}${NOW}
if redis.call('HGET', KEYS[1], 'st') ~= 'SETTLING' or redis.call('HEXISTS', KEYS[2], 'dropped') == 1 then return 0 end
if now >= redis.call('HGET', KEYS[2], 'claimed_at') + ARGV[1] then return 0 end
redis.call('HINCRBY', KEYS[2], 'dispatches', 1)
redis.call('HSET', KEYS[2], 'dispatched_at', now)
return 1`;

/**
 * KEYS record, payment, transfer. ARGV id, settlement. Notes that the chain has shown this settlement. Answers the state found.
 */
export const PROVEN = `${EVEN_IF_FULL}${unlessNewer("record")}${TAKE_TRANSFER}
local st = redis.call('HGET', KEYS[1], 'st')
if not st then return nil end
if not takeTransfer(KEYS[3], ARGV[1]) then return '${TRANSFER_TAKEN}' end
redis.call('HSET', KEYS[2], 'proven', 1, 'settlement', ARGV[2])
return st`;

/**
 * KEYS record, payment. ARGV operator's decision. Notes that an operator has seen what contradicts a payment that counts as paid. Answers
 * whether there is something that nobody had seen.
 */
export const ACKNOWLEDGE = `${EVEN_IF_FULL}${unlessNewer("record")}
local st = redis.call('HGET', KEYS[1], 'st')
if not st or st == 'SETTLING' or st == 'REVIEW' or st == 'VOID' then return 0 end
if redis.call('HEXISTS', KEYS[2], 'reason') == 0 then return 0 end
return redis.call('HSETNX', KEYS[2], 'acknowledged', ARGV[1])`;

/** KEYS payment. ARGV block. Notes up to where no use of the authorization was found. */
export const SEARCHED = `${EVEN_IF_FULL}
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'searched', ARGV[1]) end`;

/**
 * KEYS record, payment, due, identifier, unresolved, transfer, idempotency key. ARGV id. What it does not have repeats the
 * payment. Drops what was needed to finish the call. A payment whose refund was exported meanwhile is kept until it is paid back.
 */
export const ENDED = `${EVEN_IF_FULL}${unlessNewer("record")}${NOW}
local st = redis.call('HGET', KEYS[1], 'st')
if st == 'REFUND_PENDING' or st == 'REFUNDED' then return end
local left = redis.call('PTTL', KEYS[1])
local w = tonumber(redis.call('HGET', KEYS[1], 'w'))
if left < 0 then
  left = w
  redis.call('PEXPIRE', KEYS[1], left)
end
redis.call('HDEL', KEYS[2], 'call', 'request')
redis.call('HSETNX', KEYS[2], 'ended_at', now)
for _, key in ipairs({KEYS[2], KEYS[4], KEYS[6], KEYS[7]}) do redis.call('PEXPIRE', key, left) end
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])`;

/** KEYS due. ARGV lease ms, count. Takes due payments, which are due again after the lease, so that other replicas take others. */
export const TAKE_DUE = `${EVEN_IF_FULL}${NOW}
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])
for _, id in ipairs(ids) do redis.call('ZADD', KEYS[1], now + ARGV[1], id) end
return ids`;

/** KEYS due. ARGV id, ms. Sets when a payment that is on the list is due again. Answers when that is. */
export const LOOK_AGAIN = `${EVEN_IF_FULL}${NOW}
local dueAt = math.floor(now + ARGV[2])
redis.call('ZADD', KEYS[1], 'XX', dueAt, ARGV[1])
return dueAt`;
