import { messageOf } from "../../shared/errors/app-error.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { type Backoff, backoffMs } from "../../shared/time/backoff.ts";
import { delay } from "../../shared/time/clock.ts";
import type { ClaimedDelivery, DeliveryStore } from "./delivery-store.ts";
import type { Gateways } from "./gateways.ts";

type Options = {
  store: DeliveryStore;
  gateways: Gateways;
  /** For so long no other runner delivers what this one has claimed. */
  leaseMs: number;
  random: () => number;
  log: Logger;
};

/** At once; each has its body in memory. */
const CONCURRENCY = 8;
/** Between the tries to deliver one result. */
const BACKOFF: Backoff = { baseMs: 1000, capMs: 60_000 };

/**
 * Delivers the results of long calls until a gateway has taken each. Any number of runners may share one store: a result is claimed for
 * as long as a lease, and once that has lapsed, the runner that looks first delivers it again, which changes nothing.
 */
export class Deliveries {
  readonly #options: Options;
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<void> | undefined;
  #lookAgain = false;

  constructor(options: Options) {
    this.#options = options;
    this.#timer = setInterval(this.wake, options.leaseMs / 3);
  }

  /** Looks now for results that are due. */
  readonly wake = (): void => {
    if (this.#stopping.signal.aborted) return;
    this.#lookAgain = true;
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
      if (this.#lookAgain) this.wake();
    });
  };

  /** Claims nothing more. Resolves when what is under way has ended. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort(new Error("the runner stops"));
    await this.#looking;
    await Promise.all(this.#underWay.values());
  }

  async #look(): Promise<void> {
    while (this.#lookAgain && !this.#stopping.signal.aborted) {
      this.#lookAgain = false;
      await this.#claimDue().catch((error: unknown) => {
        this.#options.log.warn("result.look_failed", { reason: messageOf(error) });
      });
    }
  }

  async #claimDue(): Promise<void> {
    const { store, leaseMs } = this.#options;
    for (const id of await store.due(CONCURRENCY + this.#underWay.size)) {
      if (this.#underWay.size >= CONCURRENCY || this.#stopping.signal.aborted) return;
      if (this.#underWay.has(id)) continue;
      const claimed = await store.claim(id, leaseMs);
      if (claimed !== undefined) this.#start(claimed);
    }
  }

  #start(claimed: ClaimedDelivery): void {
    const { callId } = claimed;
    const ended = this.#deliver(claimed)
      .catch((error: unknown) => {
        this.#options.log.warn("result.left_open", { callId, reason: messageOf(error) });
      })
      .finally(() => {
        this.#underWay.delete(callId);
        this.wake();
      });
    this.#underWay.set(callId, ended);
  }

  async #deliver(claimed: ClaimedDelivery): Promise<void> {
    const { store, gateways, random, log } = this.#options;
    const { callId, tries } = claimed;
    try {
      const { became, url, status } = await gateways.deliver(callId, claimed);
      failpoint("runner.after_delivered");
      if (became === "taken")
        log.info("result.delivered", { callId, to: url, status: claimed.status, tries });
      else log.warn("result.not_taken", { callId, to: url, status });
    } catch (error) {
      const pauseMs = backoffMs(BACKOFF, tries, random);
      log.warn("result.delivery_failed", { callId, reason: messageOf(error), tries, pauseMs });
      await store.putOff(claimed, pauseMs);
      delay(pauseMs, this.#stopping.signal).then(this.wake, () => {});
      return;
    }
    await store.end(claimed);
  }
}
