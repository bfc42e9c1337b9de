import type { Redis } from "ioredis";
import { AppError } from "../platform/errors/app-error.ts";
import { BoundedMap } from "../platform/lifecycle/bounded-map.ts";
import type { Clock } from "../platform/time/clock.ts";

/** A write that waits for its turn, and the latest time at which it must begin. */
type Waiting = { lastBegin: number; begin: () => void };

/**
 * Allows one large write at a time at a server, because Redis does nothing else while it reads, runs and syncs one. Two small
 * writes therefore have at most one large write between them. The next turn goes to the write with the earliest `lastBegin`.
 * A smaller write has an earlier one, because its caller waits less long for it, so it need not wait for all larger ones. No
 * write starves: a write that arrives late enough has a later `lastBegin` than those that wait.
 */
export class LargeTurn {
  readonly #waiting = new Set<Waiting>();
  #isBusy = false;
  /** Time in ms for which other connections may now be silent; 0 if no large write is running. */
  patienceMs = 0;

  /** Resolves when it is this write's turn. Throws `queue.unavailable` if that is later than `lastBegin`. */
  async begin(lastBegin: number, clock: Clock): Promise<void> {
    if (!this.#isBusy) {
      this.#isBusy = true;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const begin = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const waiting: Waiting = { lastBegin, begin };
      const giveUp = (): void => {
        this.#waiting.delete(waiting);
        const reason = "Redis was busy with other large calls";
        reject(new AppError("queue.unavailable", { reason, retryAfterMs: 5000 }));
      };
      const timer = setTimeout(giveUp, lastBegin - clock());
      this.#waiting.add(waiting);
    });
  }

  end(): void {
    let next: Waiting | undefined;
    for (const waiting of this.#waiting) {
      if (next === undefined || waiting.lastBegin < next.lastBegin) next = waiting;
    }
    if (next === undefined) {
      this.#isBusy = false;
      return;
    }
    this.#waiting.delete(next);
    next.begin();
  }
}

/** Limit on remembered servers, above the number in a deployment. Servers come and go with failovers. */
const SERVERS_MAX = 256;

/** The `LargeTurn` of each server. Several partitions may share a server. */
export class LargeTurns {
  readonly #byServer = new BoundedMap<string, LargeTurn>(SERVERS_MAX);

  /** Returns the `LargeTurn` of the connected server. All unconnected connections share one `LargeTurn`. */
  at({ stream, options }: Redis): LargeTurn {
    const { remoteAddress, remotePort } = stream ?? {};
    const server = options.path ?? `${remoteAddress} ${remotePort}`;
    const known = this.#byServer.get(server);
    if (known !== undefined) return known;
    const turn = new LargeTurn();
    this.#byServer.set(server, turn);
    return turn;
  }
}
