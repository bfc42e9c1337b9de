import { messageOf } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { DurableRedis } from "./durable.ts";
import { readServerState, type ServerState } from "./server-state.ts";

/*
 * What a Redis gives up while it fills up, in this order:
 *
 *   kept        delivered webhooks that endpoints keep (shared/call/kept)
 *   answers     what the runner keeps whole of its answers (services/runner/kept-answers.ts)
 *   results     what is kept of them for whoever asks (shared/ingress/evict.ts)
 *   history     refused requests, calls that runners took, and the failed attempts of a call but the newest (shared/ingress/evict.ts)
 *   payments    the payment gateway refuses new ones (shared/ingress/backpressure.ts)
 *   webhooks    the webhooks gateway refuses new ones, above `redis_memory_ratio_max`
 *
 * Never a call or a payment that was accepted: even a Redis above its `maxmemory` takes what follows from it
 * (even-if-full.lua). A Redis without `maxmemory` is never too full.
 */

/** Payments leave webhooks this part of what new calls may use. */
export const PAYMENTS_PART = 0.9;

/** Kinds of data, in the order of their eviction. */
type Evicted = "kept" | "answers" | "results" | "history";

/** Above which parts of `maxmemory` these give way, if new webhooks are refused above this one. */
export function givesWayAbove(webhooks: number): Record<Evicted, number> {
  return {
    kept: Math.min(0.65, 0.775 * webhooks),
    answers: Math.min(0.675, 0.8 * webhooks),
    results: Math.min(0.7, 0.825 * webhooks),
    history: Math.min(0.725, 0.85 * webhooks),
  };
}

const LOOK_EVERY_MS = 1000;

/** Once Redis was too full, all is kept again when it is below this part of the limit. */
const ENOUGH = 0.95;

/** Lets go of so many bytes or some more, and resolves with how many things went; 0 if none is left to go. */
export type Evict = (bytes: number) => Promise<number>;

type Memory = Pick<ServerState, "usedMemoryBytes" | "maxMemoryBytes">;

type Options = {
  what: Evicted;
  durable: DurableRedis;
  /** The part of Redis' `maxmemory` above which it gives way. */
  above: number;
  /** Called each time when Redis has become too full. */
  begin: () => Evict;
  log: Logger;
};

/** Looks once a second whether Redis is too full for one of these things, and lets go of it until it is not. */
export class GiveWay {
  readonly #options: Options;
  readonly #timer: NodeJS.Timeout;
  #looking = false;
  /** Undefined while there is room. */
  #giving: { evict: Evict; gone: number } | undefined;

  constructor(options: Options) {
    this.#options = options;
    this.#timer = setInterval(() => void this.#look(), LOOK_EVERY_MS);
  }

  /** Whether Redis has room for more of it. */
  get hasRoom(): boolean {
    return this.#giving === undefined;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const { what, durable, log } = this.#options;
    if (this.#looking || !durable.isUsable) return;
    this.#looking = true;
    try {
      await this.#giveWay(durable.server());
    } catch (error) {
      log.warn(`${what}.eviction_failed`, { reason: messageOf(error) });
    } finally {
      this.#looking = false;
    }
  }

  async #giveWay(found: Memory): Promise<void> {
    const { durable, above } = this.#options;
    if (this.hasRoom && bytesOver(found, above) > 0) this.#begin(found);
    let memory = found;
    while (this.#giving !== undefined) {
      const over = bytesOver(memory, above * ENOUGH);
      if (over === 0) return this.#end(this.#giving.gone);
      const gone = await this.#giving.evict(over);
      if (gone === 0) return;
      this.#giving.gone += gone;
      memory = await readServerState(durable.redis, durable.mode);
    }
  }

  #begin({ usedMemoryBytes, maxMemoryBytes }: Memory): void {
    const { what, begin, log } = this.#options;
    this.#giving = { evict: begin(), gone: 0 };
    log.warn(`${what}.evicted`, { usedMemoryBytes, maxMemoryBytes });
  }

  #end(letGo: number): void {
    const { what, log } = this.#options;
    this.#giving = undefined;
    log.info(`${what}.eviction_ended`, { letGo });
  }
}

/** How many bytes are above this part of `maxmemory`; 0 if there is none. */
function bytesOver({ usedMemoryBytes, maxMemoryBytes }: Memory, part: number): number {
  return maxMemoryBytes === 0 ? 0 : Math.max(0, Math.ceil(usedMemoryBytes - part * maxMemoryBytes));
}
