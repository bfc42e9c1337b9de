import { X402_TRANSACTION } from "../job-call/job-call.ts";
import { addLua } from "../queue/scripts.ts";
import { defineScript } from "../redis/define-script.ts";
import {
  type Decode,
  flag,
  integer,
  list,
  nothing,
  oneOf,
  optional,
  text,
  tuple,
  unexpected,
} from "../redis/reply.ts";
import { EVEN_IF_FULL } from "../redis/script.ts";
import { refuseNewer, unlessNewer } from "../redis/version.ts";
import { tellChange } from "../results/keep-result.ts";
import acknowledgeLua from "./acknowledge.lua";
import claimLua from "./claim.lua";
import dispatchingLua from "./dispatching.lua";
import dropLua from "./drop.lua";
import endedLua from "./ended.lua";
import forgetLua from "./forget.lua";
import lookLua from "./look.lua";
import lookAgainLua from "./look-again.lua";
import { PAYMENT_STATES } from "./payment.ts";
import provenLua from "./proven.lua";
import readLua from "./read.lua";
import reviewLua from "./review.lua";
import searchedLua from "./searched.lua";
import takeDueLua from "./take-due.lua";
import takeTransferLua from "./take-transfer.lua";
import usageLua from "./usage.lua";
import voidLua from "./void.lua";

/*
 * Every change of a payment is one script, so that nothing comes between check and change. The `st` of the call's record is the state of
 * both the call and its payment. No script changes what a later release wrote. A full Redis refuses a claim, and nothing that follows it.
 *
 * Every time that they write, and every age that they compare, is by Redis' clock: no gateway's clock decides when a payment is due or how
 * old a claim is. Only the chain's times are by the chain's clock.
 */

/** What Redis and the reconciler need for a payment beside its fields. It also bounds how many small ones are unsettled. */
const USAGE_BASE_BYTES = 16 * 1024;

export type Claimed =
  /** `ageMs` is how long ago the payment was claimed; 0 unless an earlier try of the same request did it. */
  | { kind: "new"; ageMs: number }
  /** The same request was paid for before, by this payment or under the same identifier. */
  | { kind: "known"; id: string }
  | { kind: "conflict" | "identifier_conflict" | "too_many_open" | "drained" }
  | { kind: "nonce_used" | "nonce_expired" | "quote_used" | "quote_expired" }
  /** With this payment more would be unsettled than its client may have, or than there may be of all clients; or it never fits. */
  | { kind: "client_full" | "full" | "too_large" };

export const CLAIM = defineScript({
  source: claimLua,
  keys: "record, payment, due, payments, open, identifier, callerNonce, unresolved, quote, idempotencyKey, usage, usageBy, drained",
  args: "id, bodySha256, route, dueInMs, windowMs, by, openMax, nonceUntil, quoteUntil, clients, unsettledBytesMax, ...fields",
  constants: { USAGE_BASE_BYTES },
  reply: toClaimed,
});

function toClaimed(reply: unknown): Claimed {
  const [kind, detail] = tuple(text, (found) => found)(reply);
  switch (kind) {
    case "NEW":
      return { kind: "new", ageMs: integer(detail) };
    case "KNOWN":
      return { kind: "known", id: text(detail) };
    case "CONFLICT":
      return { kind: "conflict" };
    case "IDENTIFIER_CONFLICT":
      return { kind: "identifier_conflict" };
    case "TOO_MANY_OPEN":
      return { kind: "too_many_open" };
    case "NONCE_USED":
      return { kind: "nonce_used" };
    case "NONCE_EXPIRED":
      return { kind: "nonce_expired" };
    case "QUOTE_USED":
      return { kind: "quote_used" };
    case "QUOTE_EXPIRED":
      return { kind: "quote_expired" };
    case "DRAINED":
      return { kind: "drained" };
    case "CLIENT_FULL":
      return { kind: "client_full" };
    case "FULL":
      return { kind: "full" };
    case "TOO_LARGE":
      return { kind: "too_large" };
    default:
      return unexpected(reply, "what became of a claim");
  }
}

/** The fields of a payment, with sizes among them. */
export const fieldsOfPayment: Decode<string[]> = list((field) =>
  typeof field === "number" ? String(field) : text(field),
);

/** The record's fields, the payment's, and when they were read, as `toPayment` takes them. */
const PAYMENT = tuple(list(text), fieldsOfPayment, integer);

export const READ = defineScript({ source: readLua, keys: "record, payment", reply: PAYMENT });

export const LOOK = defineScript({ source: lookLua, keys: "record, payment", reply: PAYMENT });

/** What ENQUEUE_SETTLED answers for a payment whose call was dropped: it is paid, and its call is DISCARDED. */
export const CALL_DROPPED = "CALL_DROPPED";

/** What a script answers, and changes nothing, if the transfer pays for another call already. */
export const TRANSFER_TAKEN = "TRANSFER_TAKEN";

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

/**
 * KEYS record, payment, due, open, unresolved, in review, transfer, usage, usage by client. ARGV prefix, job, queue, id, due in ms,
 * settlement, proven, has transfer, from states... Adds the call, and changes one of these states to QUEUED. If an operator has dropped the
 * call, nothing is added and the state becomes DISCARDED: the money is due back. Answers the state found, or CALL_DROPPED.
 */
export const ENQUEUE_SETTLED = () => `${EVEN_IF_FULL}${unlessNewer("record")}${ADD_PAID()}
${takeTransferLua}${usageLua}
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

export const VOID = defineScript({
  source: voidLua,
  keys: "record, payment, due, open, identifier, unresolved, inReview, callerNonce, quote, idempotencyKey, usage, usageBy",
  args: "id, keepMs, reason, decided, dispatches, ...from",
  reply: optional(oneOf(...PAYMENT_STATES)),
});

export const REVIEW = defineScript({
  source: reviewLua,
  keys: "record, payment, due, unresolved, inReview",
  args: "id, reason",
  reply: optional(oneOf(...PAYMENT_STATES)),
});

/** What DROP answers. */
export const DROPPED = "DROPPED";

export const DROP = defineScript({
  source: dropLua,
  keys: "record, payment, usage, usageBy, audit",
  args: "id, decision, ...line",
  constants: { DROPPED },
  reply: optional(oneOf(...PAYMENT_STATES, DROPPED)),
});

export const FORGET = defineScript({
  source: forgetLua,
  keys: "record, payment, due, payments, unresolved, inReview, usage, usageBy",
  args: "id, openPrefix",
  reply: nothing,
});

export const DISPATCHING = defineScript({
  source: dispatchingLua,
  keys: "record, payment",
  args: "maxAgeMs",
  reply: flag,
});

export const PROVEN = defineScript({
  source: provenLua,
  keys: "record, payment, transfer",
  args: "id, settlement",
  constants: { TRANSFER_TAKEN },
  reply: optional(oneOf(...PAYMENT_STATES, TRANSFER_TAKEN)),
});

export const ACKNOWLEDGE = defineScript({
  source: acknowledgeLua,
  keys: "record, payment",
  args: "decision",
  reply: flag,
});

export const SEARCHED = defineScript({
  source: searchedLua,
  keys: "payment",
  args: "block",
  reply: nothing,
});

export const ENDED = defineScript({
  source: endedLua,
  keys: "record, payment, due, identifier, unresolved, transfer, idempotencyKey",
  args: "id",
  reply: nothing,
});

export const TAKE_DUE = defineScript({
  source: takeDueLua,
  keys: "due",
  args: "leaseMs, count",
  reply: list(text),
});

export const LOOK_AGAIN = defineScript({
  source: lookAgainLua,
  keys: "due",
  args: "id, ms",
  reply: integer,
});
