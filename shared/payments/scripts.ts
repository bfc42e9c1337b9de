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
import leaseDueLua from "./lease-due.lua";
import { PAYMENT_STATES } from "./payment.ts";
import provenLua from "./proven.lua";
import readLua from "./read.lua";
import readWithoutCallLua from "./read-without-call.lua";
import rescheduleLua from "./reschedule.lua";
import reviewLua from "./review.lua";
import searchedLua from "./searched.lua";
import voidLua from "./void.lua";

/*
 * Every change of a payment is one script, so that no other command runs between its check and its change. The field `st` of
 * the call's record is the state of both the call and its payment. No script changes a record that it cannot read. A full
 * Redis refuses claims, but runs all later steps of a payment.
 *
 * Redis' clock, and not the clock of a gateway, decides when a payment is due and how old a claim is. The times that the
 * payer signed, such as `valid_before`, are by the chain's clock.
 */

/**
 * Memory that a payment needs in Redis and in the reconciler in addition to its fields. It counts toward the limit on the
 * bytes of unsettled payments. So this limit also limits the number of small payments.
 */
export const USAGE_BASE_BYTES = 16 * 1024;

export type Claimed =
  /**
   * The request has claimed the payment. `ageMs` is the time since the claim. It is above 0 only if an earlier try of the
   * same request made the claim.
   */
  | { kind: "new"; ageMs: number }
  /**
   * An earlier request has claimed this payment, or another one under the same identifier or idempotency key. `id` is the id
   * of that request's call.
   */
  | { kind: "known"; id: string }
  | {
      kind:
        | "conflict"
        | "identifier_conflict"
        | "idempotency_key_reused"
        | "too_many_open"
        | "drained"
        | "unaudited";
    }
  | { kind: "nonce_used" | "nonce_expired" | "quote_used" | "quote_expired" }
  /**
   * There is no memory for the payment: its client's share is full, the limit of all clients is reached, or it is larger than
   * any share.
   */
  | { kind: "client_full" | "full" | "too_large" };

/** Reasons why a claim refuses a caller's nonce. */
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
    case "IDEMPOTENCY_KEY_REUSED":
      return { kind: "idempotency_key_reused" };
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

/** Decodes the fields of a payment's hash. The scripts return sizes as numbers, and all other fields as text. */
export const fieldsOfPayment: Decode<string[]> = list((field) =>
  typeof field === "number" ? String(field) : text(field),
);

/**
 * Decodes the fields of a call's record, the fields of its payment, and the time of the read: the values that `toPayment`
 * takes.
 */
const PAYMENT = tuple(list(text), fieldsOfPayment, integer);

export const READ = defineScript({
  source: readLua,
  keys: "record, payment",
  proof: "reads",
  reply: PAYMENT,
});

export const READ_WITHOUT_CALL = defineScript({
  source: readWithoutCallLua,
  keys: "record, payment",
  proof: "reads",
  reply: PAYMENT,
});

/**
 * Reply of ENQUEUE_SETTLED for a payment whose call was dropped before: the payment is settled now, and its call is
 * DISCARDED.
 */
export const CALL_DROPPED = "CALL_DROPPED";

/** Reply of a script that has changed nothing, because the transfer already pays for another call. */
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

/** Reply of DROP if the body is deleted, now or before. */
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

export const LEASE_DUE = defineScript({
  source: leaseDueLua,
  keys: "due",
  args: "leaseMs, count",
  proof: "expendable",
  reply: list(text),
});

export const RESCHEDULE = defineScript({
  source: rescheduleLua,
  keys: "due",
  args: "id, ms",
  proof: "expendable",
  reply: integer,
});
