import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { script } from "../redis/script.ts";
import { fieldsOf } from "./fields.ts";
import type { NewPayment } from "./payment.ts";
import { CLAIM } from "./scripts.ts";

/** How long a payment is remembered once its call has ended: longer than any replay of it can be meant. */
const REMEMBERED_MS = 30 * 86_400_000;

export type Claiming = { now: number; by: string; openMax: number; dueAt: number };

export type Claimed =
  | { kind: "new" }
  /** The same request was paid for before, by this payment or under the same identifier. */
  | { kind: "known"; id: string }
  | { kind: "conflict" | "identifier_conflict" | "too_many_open" | "nonce_used" | "quote_used" };

/** Writes a whole paid call before money moves, or tells what is known of it. Who claims again, as `by`, has claimed. */
export function createClaim(redis: Redis) {
  const claim = script(redis, CLAIM);
  return async (payment: NewPayment, { now, by, openMax, dueAt }: Claiming): Promise<Claimed> => {
    const { call, route, identifier, callerNonce, quoteUse } = payment;
    const head = [call.id, call.sha256, route, now, dueAt, REMEMBERED_MS, by, openMax];
    const flags = [identifier === undefined ? 0 : 1, callerNonce?.ttlMs ?? 0, quoteUse?.ttlMs ?? 0];
    const reply = await claim(touchedBy(payment), [...head, ...flags, ...fieldsOf(payment, now)]);
    return toClaimed(reply as string[]);
  };
}

/** A key that is not needed is one that is touched anyway. */
function touchedBy({ call, terms, identifier, callerNonce, quoteUse }: NewPayment): string[] {
  const own = keys.payment(call.id);
  return [
    keys.record(call.id),
    own,
    keys.paymentsDue,
    keys.payments,
    keys.openPayments(terms.payer),
    identifier === undefined ? own : keys.paymentIdentifier(terms.payer, identifier),
    callerNonce === undefined ? own : keys.callerNonce(callerNonce.hash),
    keys.paymentsUnresolved,
    quoteUse === undefined ? own : keys.usedQuote(quoteUse.digest),
  ];
}

function toClaimed([kind, id = ""]: string[]): Claimed {
  switch (kind) {
    case "NEW":
      return { kind: "new" };
    case "KNOWN":
      return { kind: "known", id };
    case "CONFLICT":
      return { kind: "conflict" };
    case "IDENTIFIER_CONFLICT":
      return { kind: "identifier_conflict" };
    case "TOO_MANY_OPEN":
      return { kind: "too_many_open" };
    case "NONCE_USED":
      return { kind: "nonce_used" };
    case "QUOTE_USED":
      return { kind: "quote_used" };
    default:
      throw new Error(`the claim answered ${kind}`);
  }
}
