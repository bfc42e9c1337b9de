import { createPaymentList } from "../../../shared/payments/list.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import { type Partition, shareOf } from "../../../shared/redis/partition.ts";
import { isUnreadable, unlessUnreadable } from "../../../shared/redis/unreadable.ts";
import { createReconcile, type ReconcileDeps } from "./reconcile.ts";

const ROUND_EVERY_MS = 1000;
/**
 * Number of due payments that are taken in one step. It is also the number of slots in each bulkhead. The reconcilers of all
 * partitions share these slots.
 */
const CONCURRENT_MAX = 16;
/** Average delay of a payment after a failure, or while its bulkhead is full. */
const POSTPONE_MS = 5000;
const PRUNE_EVERY_MS = 60_000;
/** Time for reads of the chain in a payment's lease. The rest of the lease is for one settle request. */
const CHAIN_READS_MS = 5000;

type Deps = ReconcileDeps & {
  /** Whether Redis accepts writes and has a layout that this release knows. */
  isUsable: () => boolean;
};

/**
 * Starts to reconcile, every second while Redis is usable, the payments that are due. `stop` resolves once all work has ended.
 */
export function startReconciler(deps: Deps): { stop(): Promise<void> } {
  const { journal, partition, isUsable, settleTimeoutMs, clock, log } = deps;
  const reconcile = createReconcile(deps);
  const bulkheads = createBulkheads(shareOf(CONCURRENT_MAX, partition.count));
  // Jitter, so that payments postponed together do not all come due at once.
  const jittered = (ms: number): number => ms * (0.5 + Math.random());
  const prune = createPrune(partition, clock);
  // The lease is long enough for one settle request and the reads of the chain. No other replica takes the payment before the
  // lease expires. If this process dies, the payment has to wait until then.
  const leaseMs = settleTimeoutMs + CHAIN_READS_MS;
  let stopped = false;
  let busy = false;
  let round: Promise<void> = Promise.resolve();

  /** Takes and reconciles payments until none is due. */
  async function reconcileDue(): Promise<void> {
    let taken = CONCURRENT_MAX;
    while (taken === CONCURRENT_MAX && !stopped) {
      const ids = await journal.leaseDue({ leaseMs, count: CONCURRENT_MAX });
      const payments = await Promise.all(
        ids.map((id) => journal.findWithoutCall(id).catch(unlessUnreadable)),
      );
      for (const [i, id] of ids.entries()) await begin(id, bulkheadOf(payments[i]));
      taken = ids.length;
    }
  }

  async function begin(id: string, bulkhead: BulkheadName): Promise<void> {
    if (bulkheads.isInFlight(id)) return;
    const work = () => reconcile(id).catch((error) => postpone(id, error));
    if (stopped) await journal.reschedule(id, 0);
    else if (!(await bulkheads.begin(id, bulkhead, work)))
      await journal.reschedule(id, jittered(POSTPONE_MS));
  }

  async function postpone(id: string, error: unknown): Promise<void> {
    const reason = messageOf(error);
    try {
      if (isUnreadable(error)) return await leaveToOperator(id, reason);
      log.warn("payment.reconcile_failed", { callId: id, reason });
      await journal.reschedule(id, jittered(POSTPONE_MS));
    } catch {
      // The payment comes due again when its lease expires.
    }
  }

  /**
   * Leaves a payment whose record cannot be read to an operator, because no process can continue with it. A payment in SETTLING
   * goes into review. If its call is queued already, the call stays in its queue, and the payment is disputed. If not even its
   * state can be read, the record stays as it is.
   */
  async function leaveToOperator(id: string, reason: string): Promise<void> {
    const state = await journal.markForReview(id, reason).catch(unlessUnreadable);
    if (state !== undefined && state !== "SETTLING") await journal.markDisputed(id, reason);
    log.error("payment.unreadable", { callId: id, state, reason });
    await journal.unschedule(id);
  }

  const timer = setInterval(() => {
    if (busy || stopped || !isUsable()) return;
    busy = true;
    round = reconcileDue()
      .then(prune)
      .catch((error) => log.warn("payment.reconcile_failed", { reason: messageOf(error) }))
      .finally(() => {
        busy = false;
      });
  }, ROUND_EVERY_MS);

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
/** Name of a bulkhead: the network of a chain, or `REDIS`. */
type BulkheadName = string;

/**
 * Returns the name of the bulkhead in which a payment is reconciled: its network, or `REDIS` if only Redis is read for it. With a
 * bulkhead for each network, a chain or facilitator that hangs does not delay the payments of other networks.
 */
function bulkheadOf(payment: Payment | undefined): BulkheadName {
  if (payment === undefined || payment.proven) return REDIS;
  return payment.terms.network;
}

/**
 * Creates a function that removes expired payments from the list of all payments, a part of the list each time. It runs at most
 * once a minute, and continues where it stopped before.
 */
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
 * Creates bulkheads: groups of work, each with a limit of `slots` pieces that run at the same time. In a full bulkhead, `begin`
 * waits for a slot. If no work ends for `STUCK_MS`, the bulkhead is stuck, and `begin` returns false at once. So a service that
 * hangs delays only the work in its own bulkhead.
 */
function createBulkheads(slots: number) {
  const bulkheads = new Map<BulkheadName, Bulkhead>();
  const inFlight = new Map<string, Promise<void>>();

  function bulkheadNamed(name: BulkheadName): Bulkhead {
    const bulkhead = bulkheads.get(name) ?? { running: 0, stuck: false, waiting: [] };
    bulkheads.set(name, bulkhead);
    return bulkhead;
  }

  /** Whether the bulkhead has a free slot. Waits for one unless the bulkhead is stuck. */
  async function hasSlot(bulkhead: Bulkhead): Promise<boolean> {
    if (bulkhead.running >= slots && !bulkhead.stuck) bulkhead.stuck = !(await endsInTime(bulkhead));
    return bulkhead.running < slots;
  }

  async function run(bulkhead: Bulkhead, work: () => Promise<void>): Promise<void> {
    bulkhead.running += 1;
    await work();
    bulkhead.running -= 1;
    bulkhead.stuck = false;
    for (const wake of bulkhead.waiting.splice(0)) wake();
  }

  return {
    isInFlight: (id: string) => inFlight.has(id),

    /** Starts the work, which must never reject. Resolves with false, and starts nothing, if its bulkhead has no free slot. */
    async begin(id: string, name: BulkheadName, work: () => Promise<void>): Promise<boolean> {
      const bulkhead = bulkheadNamed(name);
      if (!(await hasSlot(bulkhead))) return false;
      const running = run(bulkhead, work).finally(() => inFlight.delete(id));
      inFlight.set(id, running);
      return true;
    },

    /** Resolves once all work has ended. */
    async idle(): Promise<void> {
      await Promise.all(inFlight.values());
    },
  };
}

/** Waits until some work in the bulkhead ends. Resolves with false if none ends within `STUCK_MS`. */
function endsInTime({ waiting }: Bulkhead): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), STUCK_MS);
    waiting.push(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
