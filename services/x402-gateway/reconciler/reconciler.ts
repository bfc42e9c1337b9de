import { messageOf } from "../../../shared/errors/app-error.ts";
import { createPaymentList } from "../../../shared/payments/list.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import type { Redis } from "../../../shared/redis/connect.ts";
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

/** A bulkhead is stuck when it is full and nothing has left it for this long. */
const STUCK_MS = 1000;

type Bulkhead = { under: number; stuck: boolean; waiting: (() => void)[] };

/**
 * Work by what it depends on: as much of each bulkhead at a time as there are slots. A full bulkhead is waited for as long as it
 * moves; one that is stuck holds nobody up, so that what hangs is felt in its own bulkhead only.
 */
export function createBulkheads({ slots }: { slots: number }) {
  const bulkheads = new Map<string, Bulkhead>();
  const underWay = new Map<string, Promise<void>>();

  function bulkheadOf(name: string): Bulkhead {
    const bulkhead = bulkheads.get(name) ?? { under: 0, stuck: false, waiting: [] };
    bulkheads.set(name, bulkhead);
    return bulkhead;
  }

  /** Whether there is a slot; waits for one while the bulkhead moves. */
  async function hasRoom(bulkhead: Bulkhead): Promise<boolean> {
    if (bulkhead.under >= slots && !bulkhead.stuck) bulkhead.stuck = !(await leftInTime(bulkhead));
    return bulkhead.under < slots;
  }

  async function run(bulkhead: Bulkhead, work: () => Promise<void>): Promise<void> {
    bulkhead.under += 1;
    await work();
    bulkhead.under -= 1;
    bulkhead.stuck = false;
    for (const wake of bulkhead.waiting.splice(0)) wake();
  }

  return {
    isUnderWay: (id: string) => underWay.has(id),

    /** Begins the work, which never rejects; false, and nothing is done, where its bulkhead is stuck. */
    async begin(id: string, name: string, work: () => Promise<void>): Promise<boolean> {
      const bulkhead = bulkheadOf(name);
      if (!(await hasRoom(bulkhead))) return false;
      const running = run(bulkhead, work).finally(() => underWay.delete(id));
      underWay.set(id, running);
      return true;
    },

    /** Once all that was begun has ended. */
    async idle(): Promise<void> {
      await Promise.all(underWay.values());
    },
  };
}

function leftInTime({ waiting }: Bulkhead): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), STUCK_MS);
    waiting.push(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
