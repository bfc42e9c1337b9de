import type { Partition } from "../redis/partition.ts";
import { EVEN_IF_FULL, script } from "../redis/script.ts";
import type { QueueName } from "./queue-name.ts";

type Listener = (reason: Error) => void;

/**
 * A worker's hold on the call it took. It can be lost, once and for good, when the worker stops or could not renew its lock.
 * It is a plain object, because an AbortSignal for each call costs more than reading and parsing the call; `signal` makes one
 * on demand.
 */
export class Hold {
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

/** A call in hand, and the token of the lock on it. */
export type Held = {
  queue: QueueName;
  id: string;
  token: string;
  hold: Hold;
  /** The window of its record, if it has one. */
  windowMs: number | undefined;
  /** Whether it was taken before. */
  retried: boolean;
  /** How many processes have ended with it in hand. */
  crashes: number;
};

/**
 * KEYS job, lock, stalled set and active list of each call. ARGV lock ms, then token, id and crashes of each call. Renews the locks,
 * also those that have run out, if nobody has taken the call back yet; and takes the calls off the list of those that may be stalled,
 * or a call would be moved although its lock holds. Answers the positions of the calls that are in hand no more. If one was taken back,
 * that has counted this worker as one that ended with it, which it has not.
 */
const RENEW = `${EVEN_IF_FULL}
local lost = {}
for i = 0, #KEYS / 4 - 1 do
  local job, lock, stalled, active = unpack(KEYS, 4 * i + 1, 4 * i + 4)
  local token, id, crashes = unpack(ARGV, 3 * i + 2, 3 * i + 4)
  local by = redis.call('GET', lock)
  if by == token or (not by and redis.call('LPOS', active, id)) then
    redis.call('SET', lock, token, 'PX', ARGV[1])
    redis.call('SREM', stalled, id)
  else
    lost[#lost + 1] = i
    if tonumber(redis.call('HGET', job, 'stc') or 0) > tonumber(crashes) then redis.call('HINCRBY', job, 'stc', -1) end
  end
end
return lost`;

/** KEYS alone. ARGV worker, ms. */
const RENEW_ALONE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end`;

export type Holds = ReturnType<typeof createHolds>;

/** The calls that a worker has in hand. */
export function createHolds({ redis, keys }: Partition, lockMs: number) {
  const renew = script(redis, RENEW);
  const renewAlone = script(redis, RENEW_ALONE);
  const all = new Set<Held>();

  async function renewAll(renewed: readonly Held[]): Promise<void> {
    if (renewed.length === 0) return;
    const touched = renewed.flatMap(({ queue, id }) =>
      [id, `${id}:lock`, "stalled", "active"].map((name) => keys.inQueue(queue, name)),
    );
    const named = renewed.flatMap(({ token, id, crashes }) => [token, id, crashes]);
    const lost = await renew(touched, [lockMs, ...named]);
    for (const at of lost as number[]) renewed[at]?.hold.lose("the lock on the call was lost");
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

    /** While this worker is the one that takes calls alone (scripts.ts), it stays so. */
    async renewAlone(workerName: string): Promise<void> {
      await renewAlone([keys.alone], [workerName, lockMs]);
    },

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
