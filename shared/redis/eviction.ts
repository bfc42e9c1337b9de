import { messageOf } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { DurableRedis } from "./durable.ts";
import { readServerState, type ServerState } from "./server-state.ts";

/*
 * Data that is evicted and requests that are refused while Redis fills up, in this order:
 *
 *   kept        delivered webhooks that endpoints keep (shared/call/kept)
 *   answers     the runner's whole answers (services/runner/kept-answers.ts)
 *   results     results that are kept for clients (shared/ingress/evict.ts)
 *   history     refused requests, injected calls, and all but the newest failed attempt of each call (shared/ingress/evict.ts)
 *   payments    the payment gateway refuses new ones (shared/ingress/backpressure.ts)
 *   webhooks    the webhooks gateway refuses new ones, above `redis_memory_ratio_max`
 *
 * An accepted call or payment is never evicted: even a Redis above its `maxmemory` runs the scripts that continue it
 * (even-if-full.lua). A Redis without `maxmemory` never counts as too full.
 */

/**
 * The payment gateway refuses payments above this fraction of the limit for webhooks. So payments are refused before
 * webhooks.
 */
export const PAYMENTS_PART = 0.9;

/** Kinds of data, in the order of their eviction. */
type Evicted = "kept" | "answers" | "results" | "history";

/**
 * Returns, for each kind of data, the fraction of `maxmemory` above which it is evicted. `webhooks` is the fraction above
 * which new webhooks are refused, so all others are below it.
 */
export function evictionThresholds(webhooks: number): Record<Evicted, number> {
  return {
    kept: Math.min(0.65, 0.775 * webhooks),
    answers: Math.min(0.675, 0.8 * webhooks),
    results: Math.min(0.7, 0.825 * webhooks),
    history: Math.min(0.725, 0.85 * webhooks),
  };
}

const CHECK_EVERY_MS = 1000;

/**
 * An eviction ends, and new data of its kind is kept again, once the used memory is below this fraction of the limit that was
 * exceeded.
 */
const RESUME_BELOW_PART = 0.95;

/** Frees at least `bytes`; resolves with the number of evicted items, 0 if none is left. */
export type Evict = (bytes: number) => Promise<number>;

type Memory = Pick<ServerState, "usedMemoryBytes" | "maxMemoryBytes">;

type Options = {
  what: Evicted;
  durable: DurableRedis;
  /** The fraction of Redis' `maxmemory` above which this kind of data is evicted. */
  above: number;
  /** Called each time Redis becomes too full for this kind of data. Returns the function that evicts it. */
  begin: () => Evict;
  log: Logger;
};

/** Checks once a second whether Redis is too full for one kind of data. If so, evicts such data until Redis is not. */
export class Evictor {
  readonly #options: Options;
  readonly #timer: NodeJS.Timeout;
  #checking = false;
  /** The running eviction, with the number of items that it has evicted. Undefined while Redis has capacity. */
  #eviction: { evict: Evict; gone: number } | undefined;

  constructor(options: Options) {
    this.#options = options;
    this.#timer = setInterval(() => void this.#check(), CHECK_EVERY_MS);
  }

  /** True if Redis has capacity for more of this kind of data. */
  get hasCapacity(): boolean {
    return this.#eviction === undefined;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #check(): Promise<void> {
    const { what, durable, log } = this.#options;
    if (this.#checking || !durable.isUsable) return;
    this.#checking = true;
    try {
      await this.#evict(durable.server());
    } catch (error) {
      log.warn(`${what}.eviction_failed`, { reason: messageOf(error) });
    } finally {
      this.#checking = false;
    }
  }

  async #evict(found: Memory): Promise<void> {
    const { durable, above } = this.#options;
    if (this.hasCapacity && bytesOver(found, above) > 0) this.#begin(found);
    let memory = found;
    while (this.#eviction !== undefined) {
      const over = bytesOver(memory, above * RESUME_BELOW_PART);
      if (over === 0) return this.#end(this.#eviction.gone);
      const gone = await this.#eviction.evict(over);
      if (gone === 0) return;
      this.#eviction.gone += gone;
      memory = await readServerState(durable.redis, durable.mode);
    }
  }

  #begin({ usedMemoryBytes, maxMemoryBytes }: Memory): void {
    const { what, begin, log } = this.#options;
    this.#eviction = { evict: begin(), gone: 0 };
    log.warn(`${what}.evicted`, { usedMemoryBytes, maxMemoryBytes });
  }

  #end(letGo: number): void {
    const { what, log } = this.#options;
    this.#eviction = undefined;
    log.info(`${what}.eviction_ended`, { letGo });
  }
}

/** Returns how many bytes are used above this fraction of `maxmemory`; 0 if the fraction is not exceeded. */
function bytesOver({ usedMemoryBytes, maxMemoryBytes }: Memory, part: number): number {
  return maxMemoryBytes === 0 ? 0 : Math.max(0, Math.ceil(usedMemoryBytes - part * maxMemoryBytes));
}
