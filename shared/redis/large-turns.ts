import type { Redis } from "ioredis";
import { AppError } from "../platform/errors/app-error.ts";
import { BoundedMap } from "../platform/lifecycle/bounded-map.ts";
import type { Clock } from "../platform/time/clock.ts";

/** A write that waits for its turn, and when it must have begun. */
type Waiting = { lastBegin: number; begin: () => void };

/**
 * Has one large write at a time at a server. Redis does nothing else while it reads, runs and syncs one, and so does it for one at
 * most between two small writes. The turn goes to the write that must begin first, so that a smaller one does not wait for all
 * the larger ones before it. None starves by that: what comes within the last seconds of its own time must begin later.
 */
export class LargeTurn {
  readonly #waiting = new Set<Waiting>();
  #isBusy = false;
  /** How long the server may now be silent on other connections; 0 if it is at no large write. */
  patienceMs = 0;

  /** Resolves when the turn has come. Throws `queue.unavailable` if that is not until `lastBegin`. */
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

/** More than a deployment has. Servers come and go with failovers. */
const SERVERS_MAX = 256;

/** The turns at each server. Several partitions may lie on one. */
export class LargeTurns {
  readonly #byServer = new BoundedMap<string, LargeTurn>(SERVERS_MAX);

  /** That of the server which the connection leads to. Connections that lead nowhere share one. */
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
