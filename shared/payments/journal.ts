import { AppError } from "../errors/app-error.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { script } from "../redis/script.ts";
import { createClaim } from "./claim.ts";
import { toPayment } from "./fields.ts";
import type { Payment } from "./payment.ts";
import { LOOK, READ, TAKE_DUE } from "./scripts.ts";
import { createTransitions } from "./transitions.ts";

export type PaymentJournal = ReturnType<typeof createPaymentJournal>;

/**
 * The settlement journal: what is on disk of a payment before money moves, and what became of it since. Every change is
 * one atomic script; none is retried here.
 */
export function createPaymentJournal(redis: Redis) {
  const read = script(redis, READ);
  const look = script(redis, LOOK);
  const takeDue = script(redis, TAKE_DUE);

  return {
    claim: createClaim(redis),
    ...createTransitions(redis),

    /** All of a payment. Reads throw `queue.unavailable`. */
    async find(id: string): Promise<Payment | undefined> {
      const found = await read([keys.record(id), keys.payment(id)], []).catch(unreadable);
      return toPayment(id, found as [string[], string[]]);
    },

    /** As `find`, without `call` and `request`: the same work however large the body is. */
    async look(id: string): Promise<Payment | undefined> {
      const found = await look([keys.record(id), keys.payment(id)], []).catch(unreadable);
      return toPayment(id, found as [string[], string[]]);
    },

    /** The call that this payer bought under this identifier. */
    async findIdentified(payer: string, identifier: string): Promise<string | undefined> {
      const id = await redis.hget(keys.paymentIdentifier(payer, identifier), "id").catch(unreadable);
      return id ?? undefined;
    },

    /** Whether a payment has used this caller's nonce up. */
    async isNonceUsed(hash: string): Promise<boolean> {
      return (await redis.exists(keys.callerNonce(hash)).catch(unreadable)) === 1;
    },

    /** Whether a payment has used this operator's quote up. */
    async isQuoteUsed(digest: string): Promise<boolean> {
      return (await redis.exists(keys.usedQuote(digest)).catch(unreadable)) === 1;
    },

    /** How many of the payer's payments are open: SETTLING or in REVIEW. */
    async countOpen(payer: string): Promise<number> {
      return redis.scard(keys.openPayments(payer)).catch(unreadable);
    },

    /** Up to `count` payments that are due; no other taker gets them before `until`. */
    async takeDue({ now, until, count }: { now: number; until: number; count: number }): Promise<string[]> {
      return (await takeDue([keys.paymentsDue], [now, until, count])) as string[];
    },

    /** Nothing is known of this call any more, so there is nothing to look after. */
    async forget(id: string): Promise<void> {
      await redis.zrem(keys.paymentsDue, id);
    },

    /** When the reconciler is to look again; nothing for a payment that needs no looking after. */
    async lookAgain(id: string, at: number): Promise<void> {
      await redis.zadd(keys.paymentsDue, "XX", at, id);
    },
  };
}

function unreadable(cause: unknown): never {
  const reason = "the journal cannot be read";
  throw new AppError("queue.unavailable", { reason, retryAfterMs: 2000, cause });
}
