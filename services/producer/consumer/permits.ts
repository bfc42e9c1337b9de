import { Batches } from "../../../shared/redis/batches.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import { integer, list, nothing, text, tuple } from "../../../shared/redis/reply.ts";
import acquirePermitsLua from "./acquire-permits.lua";
import { askControl, type Control } from "./control.ts";
import releasePermitsLua from "./release-permits.lua";
import renewPermitsLua from "./renew-permits.lua";
import type { Source } from "./turns.ts";

/** Begins the name of a place that is reserved. A permit has a worker's name. */
const RESERVED = "for ";
/** A worker that is woken acquires its permit at once. */
const RESERVED_MS = 500;
/** Between the queues that the rate of a job holds back. */
const NEXT_AFTER_MS = 20;
/** The keys of a job whose calls no producer takes expire after this long. */
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

/** Pause of a job with limits while partition 0 does not answer. */
const AWAY_MS = 1000;

type Sourced = Source & { readonly partition: number };

/** Whether a call may be taken. If not, `againMs` is when to ask again; without it, a release wakes the queue. */
export type Acquired = { kind: "permitted" } | { kind: "wait"; againMs: number | undefined };

export type Permits = ReturnType<typeof createPermits>;

/**
 * Makes the limits of a job hold over all partitions. A partition does not know the calls in flight in the others. So a worker acquires a permit
 * in partition 0 before it takes a call of such a job. It releases the permit after the call, with any verdict. The permit of a worker that dies
 * ends as its locks do.
 */
export function createPermits(
  control: Control,
  { lockMs, wake }: { lockMs: number; wake: (partition: number, queue: string) => void },
) {
  const { redis, keys } = control.partition;
  const [acquire, release, renew] = [ACQUIRE.on(redis), RELEASE.on(redis), RENEW.on(redis)];
  /** The gates whose calls need permits, as far as this worker has seen. */
  const needed = new Set<string>();
  /** By the token of the slot. */
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

  async function give(gate: string, id: string, unusedOf: number): Promise<void> {
    const next = await releases.add({ gate, id, unusedOf }, 0);
    const [partition = "", queue = ""] = next.split(" ");
    if (next !== "") wake(Number(partition), queue);
  }

  return {
    /** A partition says that calls of this gate need permits. */
    need: (gate: string) => void needed.add(gate),

    isNeeded: (gate: string) => needed.has(gate),

    async acquire({ gate, queue, partition }: Sourced, id: string): Promise<Acquired> {
      const answer = await askControl(
        control,
        () => acquires.add({ gate, source: `${partition} ${queue}`, id }, 0),
        ([kind, periodEnd]) => void (kind === "PERMIT" && give(gate, id, periodEnd).catch(() => {})),
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

    /** The call has left the slot, or none was taken. Wakes the queue that has waited longest. */
    async release(id: string, isUsed: boolean): Promise<void> {
      const permit = held.get(id);
      if (permit === undefined) return;
      held.delete(id);
      await give(permit.gate, id, isUsed ? 0 : permit.periodEnd);
    },

    /** Renews the permits of the calls in flight. One that a failover has lost is there again. */
    async renew(): Promise<void> {
      if (held.size === 0) return;
      const permits = [...held.values()].map(({ gate }) => keys.permits(gate));
      await renew({ permits }, { lockMs, ids: [...held.keys()] });
    },
  };
}
