import type { Redis } from "ioredis";
import { AppError } from "../platform/errors/app-error.ts";
import { BoundedMap } from "../platform/lifecycle/bounded-map.ts";
import type { Clock } from "../platform/time/clock.ts";

/** A write that waits for its turn, and the latest time at which it can begin and still end by its deadline. */
type Waiting = { lastBegin: number; begin: () => void };

/**
 * Allows only one large write at a time on a server. Redis does nothing else while it reads, runs and syncs a large write, so
 * between two small writes there is at most one large one. The next turn goes to the waiting write with the earliest
 * `lastBegin`. A smaller write has an earlier one, because its caller waits less long for it. So it need not wait for all
 * larger ones. No write waits forever: writes that arrive much later have a later `lastBegin`.
 */
export class LargeTurn {
  readonly #waiting = new Set<Waiting>();
  #isBusy = false;
  /**
   * Time in ms for which Redis may now be silent on other connections, because it is busy with a large write. 0 if none is
   * running.
   */
  patienceMs = 0;

  /** Resolves when it is this write's turn. Throws `queue.unavailable` if its turn has not come by `lastBegin`. */
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

/**
 * Maximum number of remembered servers. It is more than a deployment has at a time, because servers come and go with
 * failovers.
 */
const SERVERS_MAX = 256;

/** The `LargeTurn` of each server. Partitions that are on the same server share one. */
export class LargeTurns {
  readonly #byServer = new BoundedMap<string, LargeTurn>(SERVERS_MAX);

  /** Returns the `LargeTurn` of the server to which this connection is open. All connections that are not open share one. */
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
