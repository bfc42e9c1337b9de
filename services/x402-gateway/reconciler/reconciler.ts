import { createPaymentList } from "../../../shared/payments/list.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { type Partition, shareOf } from "../../../shared/redis/partition.ts";
import { isUnreadable, unlessUnreadable } from "../../../shared/redis/unreadable.ts";
import { createReconcile, type ReconcileDeps } from "./reconcile.ts";

const LOOK_EVERY_MS = 1000;
/** How many payments are taken at a time, and how many the bulkheads of one name let in at a time in all partitions. */
const AT_ONCE = 16;
/** The pause, on average, after a failure, and while a payment's bulkhead has no place. */
const LATER_MS = 5000;
const PRUNE_EVERY_MS = 60_000;
/** Time for reads of the chain, beside a settle request. */
const READING_MS = 5000;

type Deps = ReconcileDeps & {
  /** Whether Redis can be written to, and holds what this release knows. */
  isUsable: () => boolean;
};

/** Reconciles, every second while Redis is usable, the payments that are due. `stop` resolves when all work has ended. */
export function startReconciler(deps: Deps): { stop(): Promise<void> } {
  const { journal, partition, isUsable, settleTimeoutMs, clock, log } = deps;
  const reconcile = createReconcile(deps);
  const bulkheads = createBulkheads(shareOf(AT_ONCE, partition.count));
  // What is put off together does not come back together.
  const later = (ms: number): number => ms * (0.5 + Math.random());
  const prune = createPrune(partition, clock);
  // No other replica takes the same payment during this lease; if this one dies, the payment waits for the lease to end.
  const leaseMs = settleTimeoutMs + READING_MS;
  let stopped = false;
  let busy = false;
  let round: Promise<void> = Promise.resolve();

  /** Takes payments until none is due any more. */
  async function look(): Promise<void> {
    let taken = AT_ONCE;
    while (taken === AT_ONCE && !stopped) {
      const ids = await journal.takeDue({ leaseMs, count: AT_ONCE });
      const payments = await Promise.all(ids.map((id) => journal.look(id).catch(unlessUnreadable)));
      for (const [i, id] of ids.entries()) await begin(id, bulkheadOf(payments[i]));
      taken = ids.length;
    }
  }

  async function begin(id: string, bulkhead: BulkheadName): Promise<void> {
    if (bulkheads.isUnderWay(id)) return;
    const work = () => reconcile(id).catch((error) => putOff(id, error));
    if (stopped) await journal.lookAgain(id, 0);
    else if (!(await bulkheads.begin(id, bulkhead, work))) await journal.lookAgain(id, later(LATER_MS));
  }

  async function putOff(id: string, error: unknown): Promise<void> {
    const reason = messageOf(error);
    try {
      if (isUnreadable(error)) return await setApart(id, reason);
      log.warn("payment.reconcile_failed", { callId: id, reason });
      await journal.lookAgain(id, later(LATER_MS));
    } catch {
      // It comes again at the end of its lease.
    }
  }

  /** Nobody can go on with it but an operator. A call that is queued stays so, and a record that cannot be read stays as it is. */
  async function setApart(id: string, reason: string): Promise<void> {
    const state = await journal.markForReview(id, reason).catch(unlessUnreadable);
    if (state !== undefined && state !== "SETTLING") await journal.markDisputed(id, reason);
    log.error("payment.unreadable", { callId: id, state, reason });
    await journal.leave(id);
  }

  const timer = setInterval(() => {
    if (busy || stopped || !isUsable()) return;
    busy = true;
    round = look()
      .then(prune)
      .catch((error) => log.warn("payment.reconcile_failed", { reason: messageOf(error) }))
      .finally(() => {
        busy = false;
      });
  }, LOOK_EVERY_MS);

  return {
    stop: async () => {
      stopped = true;
      clearInterval(timer);
      await round;
      await bulkheads.idle();
    },
  };
}

const REDIS = "redis";
/** A chain by its network, or `REDIS`. */
type BulkheadName = string;

/** Names what may hang while this payment is reconciled: its chain and the facilitator, or nothing but Redis. */
function bulkheadOf(payment: Payment | undefined): BulkheadName {
  if (payment === undefined || payment.proven) return REDIS;
  return payment.terms.network;
}

/** Once a minute, removes from the list some of the payments that Redis has forgotten. */
function createPrune(partition: Partition, clock: Clock): () => Promise<void> {
  const payments = createPaymentList(partition);
  let rank = 0;
  let dueAt = 0;
  return async () => {
    if (clock() < dueAt) return;
    dueAt = clock() + PRUNE_EVERY_MS;
    rank = await payments.prune(rank);
  };
}

/** A bulkhead is stuck when it is full and no work in it has ended for this long. */
const STUCK_MS = 1000;

type Bulkhead = { running: number; stuck: boolean; waiting: (() => void)[] };

/**
 * Runs at most `places` pieces of work at a time in each bulkhead. `begin` waits for a place in a full bulkhead while work in it ends, and
 * refuses at once while it is stuck, so that what hangs holds up its own bulkhead only.
 */
function createBulkheads(places: number) {
  const bulkheads = new Map<BulkheadName, Bulkhead>();
  const underWay = new Map<string, Promise<void>>();

  function bulkheadNamed(name: BulkheadName): Bulkhead {
    const bulkhead = bulkheads.get(name) ?? { running: 0, stuck: false, waiting: [] };
    bulkheads.set(name, bulkhead);
    return bulkhead;
  }

  /** Whether there is a place; waits for one unless the bulkhead is stuck. */
  async function hasPlace(bulkhead: Bulkhead): Promise<boolean> {
    if (bulkhead.running >= places && !bulkhead.stuck) bulkhead.stuck = !(await endsInTime(bulkhead));
    return bulkhead.running < places;
  }

  async function run(bulkhead: Bulkhead, work: () => Promise<void>): Promise<void> {
    bulkhead.running += 1;
    await work();
    bulkhead.running -= 1;
    bulkhead.stuck = false;
    for (const wake of bulkhead.waiting.splice(0)) wake();
  }

  return {
    isUnderWay: (id: string) => underWay.has(id),

    /** Begins the work, which must never reject. False if its bulkhead has no place; then nothing is done. */
    async begin(id: string, name: BulkheadName, work: () => Promise<void>): Promise<boolean> {
      const bulkhead = bulkheadNamed(name);
      if (!(await hasPlace(bulkhead))) return false;
      const running = run(bulkhead, work).finally(() => underWay.delete(id));
      underWay.set(id, running);
      return true;
    },

    /** Resolves once all work that was begun has ended. */
    async idle(): Promise<void> {
      await Promise.all(underWay.values());
    },
  };
}

/** Whether some work in the bulkhead ends before it counts as stuck. */
function endsInTime({ waiting }: Bulkhead): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), STUCK_MS);
    waiting.push(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
