import type { QueueName } from "../../../shared/queue/queue-name.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { integer, list } from "../../../shared/redis/reply.ts";
import renewLocksLua from "./renew-locks.lua";

type Listener = (reason: Error) => void;

/**
 * A worker's hold on the call it took. It can be lost, once and for good, when the worker stops or could not renew its lock.
 * It is a plain object, because an AbortSignal for each call costs more than reading and parsing the call; `signal` makes one
 * on demand.
 */
export class Hold {
  /** Whether the runner no longer has the call: only its end is still written. */
  isAnswered = false;
  #lost: Error | undefined;
  #listeners: Set<Listener> | undefined;
  #signal: AbortSignal | undefined;

  get lost(): boolean {
    return this.#lost !== undefined;
  }

  /** Aborted when the hold is lost. */
  get signal(): AbortSignal {
    if (this.#signal !== undefined) return this.#signal;
    const controller = new AbortController();
    this.onLost((reason) => controller.abort(reason));
    this.#signal = controller.signal;
    return this.#signal;
  }

  /** Calls `listener` when the hold is lost, or at once if it already is. Returns a function that removes it. */
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

/** A call in flight, and the token of the lock on it. */
export type Held = {
  queue: QueueName;
  id: string;
  token: string;
  hold: Hold;
  /** The window of its record, if it has one. */
  windowMs: number | undefined;
  /** How often it was taken, this time included. */
  take: number;
  /** How many processes have ended with it in flight. */
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

/** The calls that a worker has in flight. */
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

    /** Renews the locks on all of them. The holds on calls that another worker may have now are lost. */
    renew: () => renewAll([...all].filter(({ hold }) => !hold.lost)),

    /** Whether the call is still this worker's, although its lock had run out. */
    async regain(held: Held): Promise<boolean> {
      if (!held.hold.lost) await renewAll([held]);
      return !held.hold.lost;
    },

    loseAll(reason: string): void {
      for (const { hold } of all) hold.lose(reason);
    },
  };
}
