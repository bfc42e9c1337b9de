import type { Redis } from "../../shared/redis/connect.ts";

type Options = {
  redis: Redis;
  /** Resolves with false if the lease no longer belongs to this runner. */
  renew: (id: string) => Promise<boolean>;
  leaseMs: number;
};

/**
 * Keeps the calls that run here under a lease. A call whose lease lapses may be begun by another runner, so leases are
 * renewed three times within their length, and at once when Redis is back: while it was away, no runner could take a call.
 */
export class Leases {
  readonly #options: Options;
  readonly #onLost = new Map<string, () => void>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: Options) {
    this.#options = options;
    this.#timer = setInterval(this.#renewAll, options.leaseMs / 3);
    options.redis.on("ready", this.#renewAll);
  }

  /** Renews the lease of this call until `drop`. Calls `onLost` if another runner took the call. */
  hold(id: string, onLost: () => void = () => {}): void {
    this.#onLost.set(id, onLost);
  }

  drop(id: string): void {
    this.#onLost.delete(id);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#options.redis.off("ready", this.#renewAll);
    this.#onLost.clear();
  }

  readonly #renewAll = (): void => {
    for (const id of this.#onLost.keys()) void this.#renew(id);
  };

  async #renew(id: string): Promise<void> {
    try {
      if (!(await this.#options.renew(id))) this.#onLost.get(id)?.();
    } catch {
      // The connection logs by itself that Redis is away; the next turn renews.
    }
  }
}
