import { keys } from "../queue/agreements.ts";
import type { Redis } from "../redis/connect.ts";
import { script } from "../redis/script.ts";
import { createClaim } from "./claim.ts";
import { toPayment } from "./fields.ts";
import { createMoves } from "./moves.ts";
import type { Payment } from "./payment.ts";
import { READ, TAKE_DUE } from "./scripts.ts";

export type PaymentJournal = ReturnType<typeof createPaymentJournal>;

/**
 * The settlement journal: what is on disk of a payment before money moves, and what became of it since. Every change is
 * one atomic script; none is retried here.
 */
export function createPaymentJournal(redis: Redis) {
  const read = script(redis, READ);
  const takeDue = script(redis, TAKE_DUE);

  return {
    claim: createClaim(redis),
    ...createMoves(redis),

    async find(id: string): Promise<Payment | undefined> {
      const found = await read([keys.record(id), keys.payment(id)], []);
      return toPayment(id, found as [string[], string[]]);
    },

    /** Whether a payment has used this caller's nonce up. */
    async isNonceUsed(hash: string): Promise<boolean> {
      return (await redis.exists(keys.callerNonce(hash))) === 1;
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
