import { messageOf } from "../../../shared/errors/app-error.ts";
import { createPaymentList } from "../../../shared/payments/list.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import type { Redis } from "../../../shared/redis/connect.ts";
import { createBulkheads } from "./bulkheads.ts";
import { createReconcile, type ReconcileDeps } from "./reconcile.ts";

const EVERY_MS = 1000;
const AT_ONCE = 16;
/** After a failure, and where what a payment depends on is stuck. */
const LATER_MS = 5000;
const PRUNE_EVERY_MS = 60_000;
/** Time for reads of the chain, beside a settle request. */
const READING_MS = 5000;

type Deps = ReconcileDeps & { redis: Redis };

/** Looks, every second, after the payments that are due. Resolves `stop` when the last look has ended. */
export function startReconciler(deps: Deps): { stop(): Promise<void> } {
  const { journal, clock, log } = deps;
  const reconcile = createReconcile(deps);
  const bulkheads = createBulkheads({ slots: AT_ONCE });
  const prune = createPruning(deps);
  // No other replica takes the same payment meanwhile; one that dies holds it up for as long.
  const heldMs = deps.settleTimeoutMs + READING_MS;
  let stopped = false;
  let busy = false;
  let round: Promise<void> = Promise.resolve();

  /** Until nothing is due any more. */
  async function look(): Promise<void> {
    let taken = AT_ONCE;
    while (taken === AT_ONCE && !stopped) {
      const now = clock();
      const ids = await journal.takeDue({ now, until: now + heldMs, count: AT_ONCE });
      const payments = await Promise.all(ids.map((id) => journal.look(id)));
      for (const [i, id] of ids.entries()) await begin(id, bulkheadOf(payments[i]));
      taken = ids.length;
    }
  }

  async function begin(id: string, bulkhead: string): Promise<void> {
    if (bulkheads.isUnderWay(id)) return;
    const work = () => reconcile(id).catch((error) => delayed(id, error));
    if (stopped) await journal.lookAgain(id, clock());
    else if (!(await bulkheads.begin(id, bulkhead, work))) await journal.lookAgain(id, clock() + LATER_MS);
  }

  async function delayed(id: string, error: unknown): Promise<void> {
    log.warn("payment.reconcile_failed", { callId: id, reason: messageOf(error) });
    await journal.lookAgain(id, clock() + LATER_MS).catch(() => {});
  }

  const timer = setInterval(() => {
    if (busy || stopped) return;
    busy = true;
    round = look()
      .then(prune)
      .catch((error) => log.warn("payment.reconcile_failed", { reason: messageOf(error) }))
      .finally(() => {
        busy = false;
      });
  }, EVERY_MS);

  return {
    stop: async () => {
      stopped = true;
      clearInterval(timer);
      await round;
      await bulkheads.idle();
    },
  };
}

/** What may hang while this payment is looked at: its chain, with the facilitator behind it, or nothing but Redis. */
function bulkheadOf(payment: Payment | undefined): string {
  if (payment === undefined || payment.state === "SETTLED" || payment.proven) return "redis";
  return payment.terms.network;
}

/** Once a minute, forgets some of the payments of which nothing is left. */
function createPruning({ redis, clock }: Deps): () => Promise<void> {
  const payments = createPaymentList(redis);
  let rank = 0;
  let dueAt = 0;
  return async () => {
    if (clock() < dueAt) return;
    dueAt = clock() + PRUNE_EVERY_MS;
    rank = await payments.prune(rank);
  };
}
