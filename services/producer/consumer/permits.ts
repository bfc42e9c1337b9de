import { Batches } from "../../../shared/redis/batches.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import { integer, list, nothing, text, tuple } from "../../../shared/redis/reply.ts";
import acquirePermitsLua from "./acquire-permits.lua";
import { askControl, type Control } from "./control.ts";
import releasePermitsLua from "./release-permits.lua";
import renewPermitsLua from "./renew-permits.lua";
import type { Source } from "./turns.ts";

/**
 * Prefix for the name of a permit that is reserved for a waiting queue. Any other permit has the name of the worker's slot
 * that acquired it.
 */
const RESERVED = "for ";
/**
 * Time for which a released permit is reserved for the queue that has waited longest. It is short, because a worker is woken
 * for that queue and acquires the permit immediately.
 */
const RESERVED_MS = 500;
/**
 * Queues that wait for a job's next rate period request permits one after the other, with this delay between them. So they do
 * not all request at once.
 */
const NEXT_AFTER_MS = 20;
/** The keys for the permits of a job expire after this time without a request for a permit. */
const KEPT_MS = 86_400_000;

const ACQUIRE = defineScript({
  source: acquirePermitsLua,
  keys: "...jobs(limits, permits, waiters, taken)",
  args: "lockMs, ...items(source, id)",
  constants: { RESERVED, NEXT_AFTER_MS, KEPT_MS },
  proof: "expendable",
  reply: list(tuple(text, integer)),
});

const RELEASE = defineScript({
  source: releasePermitsLua,
  keys: "...jobs(limits, permits, waiters, taken)",
  args: "...items(id, unusedOf)",
  constants: { RESERVED, RESERVED_MS },
  proof: "expendable",
  reply: list(text),
});

const RENEW = defineScript({
  source: renewPermitsLua,
  keys: "...permits",
  args: "lockMs, ...ids",
  proof: "expendable",
  reply: nothing,
});

/** Delay after which a permit is requested again if partition 0 does not answer. */
const AWAY_MS = 1000;

type Sourced = Source & { readonly partition: number };

/**
 * Answer to a request for a permit. With `wait`, the worker must request again after `againMs`. If that is undefined, the
 * queue is woken when a permit is released for it.
 */
export type Acquired = { kind: "permitted" } | { kind: "wait"; againMs: number | undefined };

export type Permits = ReturnType<typeof createPermits>;

/**
 * Applies the limits of a job across all partitions. A partition does not know the calls in flight in the others. So before a
 * worker takes a call of a job with limits, it acquires a permit in partition 0. It releases the permit after the call, with
 * any outcome. The permit of a worker that dies expires like the worker's locks.
 */
export function createPermits(
  control: Control,
  { lockMs, wake }: { lockMs: number; wake: (partition: number, queue: string) => void },
) {
  const { redis, keys } = control.partition;
  const [acquire, release, renew] = [ACQUIRE.on(redis), RELEASE.on(redis), RENEW.on(redis)];
  /** Gates whose calls need permits, as far as this worker knows. It learns this from the answer to a fetch. */
  const needed = new Set<string>();
  /** Permits of this worker. The key is the token of the slot in which the call runs. */
  const held = new Map<string, { gate: string; periodEnd: number }>();

  const keysOf = ({ gate }: { gate: string }) => ({
    limits: keys.limits(gate),
    permits: keys.permits(gate),
    waiters: keys.permitWaiters(gate),
    taken: keys.taken(gate),
  });
  const acquires = new Batches((items: readonly { gate: string; source: string; id: string }[]) =>
    acquire({ jobs: items.map(keysOf) }, { lockMs, items }),
  );
  const releases = new Batches((items: readonly { gate: string; id: string; unusedOf: number }[]) =>
    release({ jobs: items.map(keysOf) }, { items }),
  );

  async function releasePermit(gate: string, id: string, unusedOf: number): Promise<void> {
    const next = await releases.add({ gate, id, unusedOf }, 0);
    const [partition = "", queue = ""] = next.split(" ");
    if (next !== "") wake(Number(partition), queue);
  }

  return {
    /** Notes that calls of this gate need permits. */
    noteNeeded: (gate: string) => void needed.add(gate),

    isNeeded: (gate: string) => needed.has(gate),

    async acquire({ gate, queue, partition }: Sourced, id: string): Promise<Acquired> {
      const answer = await askControl(
        control,
        () => acquires.add({ gate, source: `${partition} ${queue}`, id }, 0),
        ([kind, periodEnd]) => void (kind === "PERMIT" && releasePermit(gate, id, periodEnd).catch(() => {})),
      );
      if (answer === undefined) return { kind: "wait", againMs: AWAY_MS };
      const [kind, number] = answer;
      if (kind === "FULL") return { kind: "wait", againMs: undefined };
      if (kind === "RATE") return { kind: "wait", againMs: number };
      if (kind === "PERMIT") held.set(id, { gate, periodEnd: number });
      else needed.delete(gate);
      return { kind: "permitted" };
    },

    isHeld: (id: string) => held.has(id),

    /** Releases the permit after a call, or if no call was taken. Wakes the queue that has waited longest. */
    async release(id: string, isUsed: boolean): Promise<void> {
      const permit = held.get(id);
      if (permit === undefined) return;
      held.delete(id);
      await releasePermit(permit.gate, id, isUsed ? 0 : permit.periodEnd);
    },

    /** Renews the permits of the calls in flight. This restores permits that a failover lost. */
    async renew(): Promise<void> {
      if (held.size === 0) return;
      const permits = [...held.values()].map(({ gate }) => keys.permits(gate));
      await renew({ permits }, { lockMs, ids: [...held.keys()] });
    },
  };
}
