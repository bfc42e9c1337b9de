import type { Redis } from "../../shared/redis/connect.ts";

type Options = {
  redis: Redis;
  /** Renews the lease of a call. Resolves with false if the call no longer belongs to this runner. */
  renew: (id: string) => Promise<boolean>;
  leaseMs: number;
};

/**
 * Renews the leases of the calls that run in this runner, because another runner may begin a call whose lease has expired.
 * Each lease is renewed after a third of its duration. When Redis returns after an outage, all leases are renewed at once,
 * even expired ones, because no runner could begin their calls during the outage.
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

  /** Renews the lease of this call from now on, until `drop`. Calls `onLost` if another runner took the call. */
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
      // Needs no log line, because the connection already logs that Redis is unreachable. The lease is renewed at the next
      // interval, or when Redis returns.
    }
  }
}
