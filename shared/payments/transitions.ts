import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { script } from "../redis/script.ts";
import type { Decision, Payment, PaymentState, Settlement } from "./payment.ts";
import { DISPATCHING, ENDED, QUEUED, REVIEW, SETTLED, VOID } from "./scripts.ts";

const VOID_REMEMBERED_MS = 86_400_000;

/** From where to: a move that finds another state changes nothing, and answers the state it found. */
type From = { now: number; from?: readonly PaymentState[] };

/** The ways of a payment onwards, towards its call's place in the queue or to VOID. */
export function createTransitions(redis: Redis) {
  const settled = script(redis, SETTLED);
  const queued = script(redis, QUEUED);
  const toVoid = script(redis, VOID);
  const review = script(redis, REVIEW);
  const dispatching = script(redis, DISPATCHING);
  const ended = script(redis, ENDED);

  return {
    /** SETTLING (or, for an operator, REVIEW) becomes SETTLED. */
    async settled(
      { id, terms }: Payment,
      { settlement, proven }: { settlement: Settlement; proven: boolean },
      { now, from = ["SETTLING"] }: From,
    ): Promise<PaymentState | undefined> {
      const touched = [...own(id), keys.paymentsDue, keys.openPayments(terms.payer), ...UNRESOLVED];
      const args = [id, now, now, JSON.stringify(settlement), proven ? 1 : 0, ...from];
      return toState(await settled(touched, args));
    },

    /** SETTLED becomes QUEUED; another state is newer. The reconciler looks again at `dueAt`. */
    async queued(id: string, { now, dueAt }: { now: number; dueAt: number }): Promise<void> {
      await queued([...own(id), keys.paymentsDue, keys.paymentsUnresolved], [id, now, dueAt]);
    },

    /** SETTLING (or, for an operator, REVIEW) becomes VOID, and the body is dropped. */
    async void(
      payment: Payment,
      { reason, decided }: { reason: string; decided?: Decision },
      { now, from = ["SETTLING"] }: From,
    ): Promise<PaymentState | undefined> {
      const { id, terms } = payment;
      const ttlMs = Math.max(0, Number(terms.valid_before) * 1000 - now) + VOID_REMEMBERED_MS;
      const common = [...own(id), keys.paymentsDue, keys.openPayments(terms.payer)];
      const touched = [...common, identifierKey(payment), ...UNRESOLVED, ...usedKeys(payment)];
      const decision = decided === undefined ? "" : JSON.stringify(decided);
      return toState(await toVoid(touched, [id, now, ttlMs, reason, decision, ...from]));
    },

    /** SETTLING becomes REVIEW: evidence contradicts, and an operator decides. */
    async review(
      id: string,
      { now, reason }: { now: number; reason: string },
    ): Promise<PaymentState | undefined> {
      return toState(await review([...own(id), keys.paymentsDue, ...UNRESOLVED], [id, now, reason]));
    },

    /** Counts a settle request about to be sent again. False when the payment is no longer SETTLING. */
    async dispatching(id: string, now: number): Promise<boolean> {
      return (await dispatching(own(id), [now])) === "SETTLING";
    },

    /** The chain has shown the payment at the configured depth, in this transaction. */
    async proven({ id, settlement }: Payment, transaction: string): Promise<void> {
      const shown = settlement && JSON.stringify({ ...settlement, transaction });
      await redis.hset(keys.payment(id), { proven: 1, ...(shown && { settlement: shown }) });
    },

    /** Something contradicts a payment whose call was given to the runner: kept here, for an operator. */
    async disputed(id: string, reason: string): Promise<void> {
      await redis.hset(keys.payment(id), "reason", reason);
    },

    /** The call has ended and needs no more looking after: what would finish it is dropped, and the rest expires. */
    async ended(payment: Payment, now: number): Promise<void> {
      const { id, identifier } = payment;
      const touched = [...own(id), keys.paymentsDue, identifierKey(payment), keys.paymentsUnresolved];
      await ended(touched, [id, now, identifier === undefined ? 0 : 1]);
    },
  };
}

const UNRESOLVED = [keys.paymentsUnresolved, keys.paymentsInReview];

function own(id: string): [string, string] {
  return [keys.record(id), keys.payment(id)];
}

function identifierKey({ id, terms, identifier }: Payment): string {
  return identifier === undefined ? keys.payment(id) : keys.paymentIdentifier(terms.payer, identifier);
}

/** What the payment has used up; where it used nothing, a key that is never set. */
function usedKeys({ callerNonce = "none", terms }: Payment): [string, string] {
  return [keys.callerNonce(callerNonce), keys.usedQuote(terms.quote_digest)];
}

function toState(reply: unknown): PaymentState | undefined {
  return (reply as PaymentState | null) ?? undefined;
}
