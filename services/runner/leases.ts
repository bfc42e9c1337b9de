import type { Redis } from "../../shared/redis/connect.ts";

type Options = {
  redis: Redis;
  /** False when the lease is no longer ours. */
  renew: (id: string) => Promise<boolean>;
  leaseMs: number;
};

/**
 * Renews the leases of the calls that run here, three times within a lease, and at once when Redis is back: while it was
 * away no other runner could take them, from then on one may.
 */
export class Leases {
  readonly #options: Options;
  readonly #held = new Map<string, () => void>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: Options) {
    this.#options = options;
    this.#timer = setInterval(this.#renewAll, options.leaseMs / 3);
    options.redis.on("ready", this.#renewAll);
  }

  /** `onLost` is called when another runner took the call. */
  hold(id: string, onLost: () => void = () => {}): void {
    this.#held.set(id, onLost);
  }

  drop(id: string): void {
    this.#held.delete(id);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#options.redis.off("ready", this.#renewAll);
    this.#held.clear();
  }

  readonly #renewAll = (): void => {
    for (const id of this.#held.keys()) void this.#renew(id);
  };

  async #renew(id: string): Promise<void> {
    try {
      if (!(await this.#options.renew(id))) this.#held.get(id)?.();
    } catch {
      // Redis is away, which it says in the log itself; the next turn renews.
    }
  }
}
