import { X402_TRANSACTION } from "../call/job-call.ts";
import { RECORD } from "../call/record-state.ts";
import { QUEUE_CONSTANTS } from "../queue/lua-constants.ts";
import { AUDIT } from "../redis/audit/audit.ts";
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
import { SERIES } from "../telemetry/series/write.ts";
import acknowledgeLua from "./acknowledge.lua";
import claimLua from "./claim.lua";
import dispatchingLua from "./dispatching.lua";
import disputeLua from "./dispute.lua";
import dropLua from "./drop.lua";
import endedLua from "./ended.lua";
import enqueueAgainLua from "./enqueue-again.lua";
import enqueueSettledLua from "./enqueue-settled.lua";
import forgetLua from "./forget.lua";
import lookLua from "./look.lua";
import lookAgainLua from "./look-again.lua";
import { PAYMENT_STATES } from "./payment.ts";
import provenLua from "./proven.lua";
import readLua from "./read.lua";
import reviewLua from "./review.lua";
import searchedLua from "./searched.lua";
import takeDueLua from "./take-due.lua";
import voidLua from "./void.lua";

/*
 * Every change of a payment is one script, so that nothing comes between check and change. The `st` of the call's record is the state of
 * both the call and its payment. No script changes a record that it cannot read. A full Redis refuses a claim, and nothing that follows it.
 *
 * Every time that they write, and every age that they compare, is by Redis' clock: no gateway's clock decides when a payment is due or how
 * old a claim is. Only the chain's times are by the chain's clock.
 */

/** What Redis and the reconciler need for a payment beside its fields. It also bounds how many small ones are unsettled. */
export const USAGE_BASE_BYTES = 16 * 1024;

export type Claimed =
  /** `ageMs` is how long ago the payment was claimed; 0 unless an earlier try of the same request did it. */
  | { kind: "new"; ageMs: number }
  /** The same request was paid for before, by this payment or under the same identifier. */
  | { kind: "known"; id: string }
  | { kind: "conflict" | "identifier_conflict" | "too_many_open" | "drained" | "unaudited" }
  | { kind: "nonce_used" | "nonce_expired" | "quote_used" | "quote_expired" }
  /** With this payment more would be unsettled than its client may have, or than there may be of all clients; or it never fits. */
  | { kind: "client_full" | "full" | "too_large" };

/** Reasons for which a claim refuses a caller's nonce. */
export type NonceRefusal = "NONCE_USED" | "NONCE_EXPIRED";

export const CLAIM = defineScript({
  source: claimLua,
  keys: "record, payment, due, payments, open, identifier, callerNonce, unresolved, quote, idempotencyKey, usage, usageBy, drained, deployment",
  args: "id, bodySha256, route, dueInMs, windowMs, by, openMax, nonceUntil, nonceRefusal, quoteUntil, clients, unsettledBytesMax, ...fields",
  constants: { USAGE_BASE_BYTES },
  proof: "needed",
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
    case "UNAUDITED":
      return { kind: "unaudited" };
    case "CLIENT_FULL":
      return { kind: "client_full" };
    case "FULL":
      return { kind: "full" };
    case "TOO_LARGE":
      return { kind: "too_large" };
    default:
      return unexpected(reply, "the outcome of a claim");
  }
}

/** The fields of a payment, with sizes among them. */
export const fieldsOfPayment: Decode<string[]> = list((field) =>
  typeof field === "number" ? String(field) : text(field),
);

/** The record's fields, the payment's, and when they were read, as `toPayment` takes them. */
const PAYMENT = tuple(list(text), fieldsOfPayment, integer);

export const READ = defineScript({
  source: readLua,
  keys: "record, payment",
  proof: "reads",
  reply: PAYMENT,
});

export const LOOK = defineScript({
  source: lookLua,
  keys: "record, payment",
  proof: "reads",
  reply: PAYMENT,
});

/** What ENQUEUE_SETTLED answers for a payment whose call was dropped: it is paid, and its call is DISCARDED. */
export const CALL_DROPPED = "CALL_DROPPED";

/** What a script answers, and changes nothing, if the transfer pays for another call already. */
export const TRANSFER_TAKEN = "TRANSFER_TAKEN";

export const ENQUEUE_SETTLED = defineScript({
  source: enqueueSettledLua,
  keys: "record, payment, due, open, unresolved, inReview, discarded, transfer, usage, usageBy, money",
  args: "prefix, job, queue, id, dueInMs, settlement, proven, hasTransfer, line, ...from",
  constants: { AUDIT, ...QUEUE_CONSTANTS, X402_TRANSACTION, CALL_DROPPED, TRANSFER_TAKEN },
  proof: "needed",
  reply: optional(oneOf(...PAYMENT_STATES, CALL_DROPPED, TRANSFER_TAKEN)),
});

export const ENQUEUE_AGAIN = defineScript({
  source: enqueueAgainLua,
  keys: "record, payment, job, attempts",
  args: "prefix, job, queue, id",
  constants: { ...QUEUE_CONSTANTS, X402_TRANSACTION },
  proof: "needed",
  reply: optional(oneOf(...PAYMENT_STATES)),
});

export const VOID = defineScript({
  source: voidLua,
  keys: "record, payment, due, open, identifier, unresolved, inReview, callerNonce, quote, idempotencyKey, usage, usageBy, money",
  args: "id, keepMs, reason, decided, dispatches, line, ...from",
  constants: { AUDIT, RECORD },
  proof: "needed",
  reply: optional(oneOf(...PAYMENT_STATES)),
});

export const REVIEW = defineScript({
  source: reviewLua,
  keys: "record, payment, due, unresolved, inReview",
  args: "id, reason",
  constants: { RECORD },
  proof: "needed",
  reply: optional(oneOf(...PAYMENT_STATES)),
});

/** What DROP answers. */
export const DROPPED = "DROPPED";

export const DROP = defineScript({
  source: dropLua,
  keys: "record, payment, usage, usageBy, money",
  args: "id, decision, line",
  constants: { AUDIT, RECORD, DROPPED },
  proof: "needed",
  reply: optional(oneOf(...PAYMENT_STATES, DROPPED)),
});

export const FORGET = defineScript({
  source: forgetLua,
  keys: "record, payment, due, payments, unresolved, inReview, disputed, discarded, usage, usageBy",
  args: "id, openPrefix",
  proof: "expendable",
  reply: nothing,
});

export const DISPATCHING = defineScript({
  source: dispatchingLua,
  keys: "record, payment",
  args: "maxAgeMs, ...from",
  constants: { RECORD },
  proof: "needed",
  reply: flag,
});

export const PROVEN = defineScript({
  source: provenLua,
  keys: "record, payment, transfer",
  args: "id, settlement",
  constants: { RECORD, TRANSFER_TAKEN },
  proof: "needed",
  reply: optional(oneOf(...PAYMENT_STATES, TRANSFER_TAKEN)),
});

export const DISPUTE = defineScript({
  source: disputeLua,
  keys: "record, payment, disputed, ofDay",
  args: "id, reason, row, amount",
  constants: { RECORD, SERIES },
  proof: "needed",
  reply: nothing,
});

export const ACKNOWLEDGE = defineScript({
  source: acknowledgeLua,
  keys: "record, payment, disputed, money",
  args: "id, decision, line",
  constants: { AUDIT, RECORD },
  proof: "needed",
  reply: flag,
});

export const SEARCHED = defineScript({
  source: searchedLua,
  keys: "payment",
  args: "block",
  proof: "expendable",
  reply: nothing,
});

export const ENDED = defineScript({
  source: endedLua,
  keys: "record, payment, due, identifier, unresolved, transfer, idempotencyKey",
  args: "id",
  constants: { RECORD },
  proof: "needed",
  reply: nothing,
});

export const TAKE_DUE = defineScript({
  source: takeDueLua,
  keys: "due",
  args: "leaseMs, count",
  proof: "expendable",
  reply: list(text),
});

export const LOOK_AGAIN = defineScript({
  source: lookAgainLua,
  keys: "due",
  args: "id, ms",
  proof: "expendable",
  reply: integer,
});
