import { failpoint } from "../../../shared/lifecycle/failpoint.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment, Settlement } from "../../../shared/payments/payment.ts";
import type { Add } from "../../../shared/queue/enqueue.ts";
import type { RetryWrite } from "../../../shared/redis/retry-write.ts";
import type { Clock } from "../../../shared/time/clock.ts";
import { toSettledCall } from "./paid-call.ts";

/** When the chain is asked whether it has the payment: while one that has vanished can still be settled again. */
const PROVE_AFTER_MS = 30_000;

export type FinishDeps = {
  journal: PaymentJournal;
  add: Add;
  clock: Clock;
};

export type Settled = Payment & { settlement: Settlement };

export type Finish = ReturnType<typeof createFinish>;

/**
 * From money to job, by whoever knows that the money moved: the request that settled, or the reconciler of any replica.
 * Each step may be done again and by several at once; none undoes a later one.
 */
export function createFinish({ journal, add, clock }: FinishDeps) {
  /** SETTLED, unless somebody else has said so before. False when the payment is of another end: VOID or in REVIEW. */
  async function settle(payment: Payment, settlement: Settlement, write: RetryWrite): Promise<boolean> {
    const proven = settlement.by === "chain";
    const found = await write(() => journal.settled(payment, { settlement, proven }, { now: clock() }));
    failpoint("x402.after_settled");
    return found !== undefined && found !== "VOID" && found !== "REVIEW";
  }

  /** In the queue, under the id that is the payment's own. */
  async function enqueue({ id, call, settlement }: Settled, write: RetryWrite): Promise<void> {
    if (call === undefined) return;
    await write(() => add(toSettledCall(call, settlement)));
    failpoint("x402.after_add");
    await write(() => journal.queued(id, { now: clock(), dueAt: clock() + PROVE_AFTER_MS }));
    failpoint("x402.after_queued");
  }

  return { settle, enqueue };
}
