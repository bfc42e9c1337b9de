import type { QueueName } from "../../../shared/queue/queue-name.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { integer, list } from "../../../shared/redis/reply.ts";
import renewLocksLua from "./renew-locks.lua";

type Listener = (reason: Error) => void;

/**
 * A worker's right to work on the call that it took. A hold is lost for good when the worker stops. It is also lost when the
 * call's lock was not renewed in time, because another worker may have the call then. A hold is not an AbortSignal, because
 * creating one for each call costs more than reading and parsing the call. `signal` creates one on demand.
 */
export class Hold {
  /** True once the runner has answered or the injection has failed. Only the outcome must be written then. */
  isAnswered = false;
  #lost: Error | undefined;
  #listeners: Set<Listener> | undefined;
  #signal: AbortSignal | undefined;

  get lost(): boolean {
    return this.#lost !== undefined;
  }

  /** A signal that aborts when the hold is lost. */
  get signal(): AbortSignal {
    if (this.#signal !== undefined) return this.#signal;
    const controller = new AbortController();
    this.onLost((reason) => controller.abort(reason));
    this.#signal = controller.signal;
    return this.#signal;
  }

  /** Calls `listener` when the hold is lost, or at once if it already is. Returns a function that removes the listener. */
  onLost(listener: Listener): () => void {
    if (this.#lost !== undefined) {
      listener(this.#lost);
      return () => {};
    }
    this.#listeners ??= new Set();
    this.#listeners.add(listener);
    return () => this.#listeners?.delete(listener);
  }

  lose(reason: string): void {
    if (this.#lost !== undefined) return;
    this.#lost = new Error(reason);
    for (const listener of this.#listeners ?? []) listener(this.#lost);
  }
}

/** A call in flight, and the token of its lock. */
export type Held = {
  queue: QueueName;
  id: string;
  token: string;
  hold: Hold;
  /** Retention time of the call's record after the call's end, if the record has one. */
  windowMs: number | undefined;
  /** Number of times that the call was taken, including this one. */
  take: number;
  /** Number of processes that died while they worked on the call. */
  crashes: number;
};

const RENEW = defineScript({
  source: renewLocksLua,
  keys: "...callKeys(job, lock, stalled, active)",
  args: "lockMs, ...calls(token, id, crashes)",
  proof: "expendable",
  reply: list(integer),
});

export type Holds = ReturnType<typeof createHolds>;

/** Manages the holds on the calls that a worker has in flight. */
export function createHolds({ redis, keys }: Partition, lockMs: number) {
  const renew = RENEW.on(redis);
  const all = new Set<Held>();

  async function renewAll(renewed: readonly Held[]): Promise<void> {
    if (renewed.length === 0) return;
    const callKeys = renewed.map(({ queue, id }) => ({
      job: keys.inQueue(queue, id),
      lock: keys.inQueue(queue, `${id}:lock`),
      stalled: keys.inQueue(queue, "stalled"),
      active: keys.inQueue(queue, "active"),
    }));
    const lost = await renew({ callKeys }, { lockMs, calls: renewed });
    for (const at of lost) renewed[at]?.hold.lose("the lease on the call was lost");
  }

  return {
    add(held: Held): void {
      all.add(held);
    },

    remove(held: Held): void {
      all.delete(held);
    },

    /** Renews the locks of all calls in flight. If another worker may have a call now, marks its hold as lost. */
    renew: () => renewAll([...all].filter(({ hold }) => !hold.lost)),

    /** Renews an expired lock. Resolves with whether the call still belongs to this worker. */
    async regain(held: Held): Promise<boolean> {
      if (!held.hold.lost) await renewAll([held]);
      return !held.hold.lost;
    },

    loseAll(reason: string): void {
      for (const { hold } of all) hold.lose(reason);
    },
  };
}
