import { messageOf } from "../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { type Backoff, backoffMs } from "../../shared/platform/time/backoff.ts";
import type { ClaimedDelivery, DeliveryStore } from "./delivery-store.ts";
import { DueWork } from "./due-work.ts";
import type { Gateways } from "./gateways.ts";

type Options = {
  store: DeliveryStore;
  gateways: Gateways;
  /** Time for which only this runner may deliver a result that it has claimed. */
  leaseMs: number;
  random: () => number;
  log: Logger;
};

/** Maximum number of deliveries in flight. It limits the memory, because each has its body in memory. */
const CONCURRENCY = 8;
/** Backoff between attempts to deliver one result. */
const BACKOFF: Backoff = { baseMs: 1000, capMs: 60_000 };

/**
 * Delivers the results of long calls, and tries again until a gateway has accepted or refused each of them. Any number of
 * runners may share one store. A runner claims a result for the time of a lease. After that, another runner may deliver it
 * again, which changes nothing.
 */
export class Deliveries {
  readonly #options: Options;
  readonly #results: DueWork<ClaimedDelivery>;

  constructor(options: Options) {
    const { store, leaseMs, log } = options;
    this.#options = options;
    this.#results = new DueWork({
      everyMs: leaseMs / 3,
      concurrency: CONCURRENCY,
      due: (countMax) => store.due(countMax),
      claim: (callId) => store.claim(callId, leaseMs),
      work: (callId, claimed) =>
        this.#deliver(claimed).catch((error: unknown) => {
          log.warn("result.write_failed", { callId, reason: messageOf(error) });
        }),
      onCheckFailed: (error) => log.warn("result.poll_failed", { reason: messageOf(error) }),
    });
  }

  /** Checks now for results that are due. */
  readonly wake = (): void => this.#results.wake();

  /** Stops claiming. Resolves when the deliveries in flight have ended. */
  stop(): Promise<void> {
    return this.#results.stop();
  }

  async #deliver(claimed: ClaimedDelivery): Promise<void> {
    const { store, gateways, random, log } = this.#options;
    const { callId, tries } = claimed;
    try {
      const { outcome, url, status } = await gateways.deliver(callId, claimed);
      failpoint("runner.after_delivered");
      if (outcome === "taken")
        log.info("result.delivered", { callId, to: url, status: claimed.status, tries });
      else log.warn("result.delivery_refused", { callId, to: url, status });
    } catch (error) {
      const pauseMs = backoffMs(BACKOFF, tries, random);
      log.warn("result.delivery_failed", { callId, reason: messageOf(error), tries, pauseMs });
      await store.postpone(claimed, pauseMs);
      return;
    }
    await store.end(claimed);
  }
}
