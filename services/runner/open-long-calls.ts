import type { Secret } from "../../shared/platform/crypto/secret.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import type { RunnerKeys } from "../../shared/redis/keys.ts";
import { Deliveries } from "./deliveries.ts";
import { createDeliveryStore } from "./delivery-store.ts";
import { createGateways } from "./gateways.ts";
import { LongCalls, type LongCallsOptions } from "./long-calls.ts";
import { createToOutgoing } from "./outgoing.ts";
import { createReporters, NO_REPORTER } from "./progress.ts";

type Delivering = Pick<LongCallsOptions, "createReporter" | "toOutgoing" | "onOutgoing"> & {
  settle(): Promise<void>;
  /** Aborts the deliveries in flight. */
  stop(): void;
};

type Options = Omit<LongCallsOptions, keyof Delivering> & {
  durable: DurableRedis;
  keys: RunnerKeys;
  deliverTo: readonly string[];
  /** Secret that signs deliveries. */
  secret: Secret | undefined;
  resultBytesMax: number;
};

/** Starts running the long calls of a runner, and delivering their results. */
export function openLongCalls({ durable, keys, deliverTo, secret, resultBytesMax, ...options }: Options) {
  const delivering = openDelivering({ durable, keys, deliverTo, secret, resultBytesMax, ...options });
  const longCalls = new LongCalls({ ...options, ...delivering });
  return {
    /** Checks now for due calls and due results. */
    wake(): void {
      longCalls.wake();
      delivering.onOutgoing();
    },

    inFlight: () => longCalls.inFlight,

    /**
     * Stops claiming. Resolves when the running calls and the deliveries in flight have ended. It does not deliver the
     * results of the calls that end now, because this configuration may name wrong gateways. The runner with the next
     * configuration, or another runner, does.
     */
    async retire(): Promise<void> {
      await Promise.all([longCalls.retire(), delivering.settle()]);
    },

    /**
     * Stops claiming, aborts the running calls and releases them to other runners. Resolves when they and the deliveries in
     * flight have ended.
     */
    async settle(): Promise<void> {
      await longCalls.stop();
      await delivering.settle();
    },

    stop: () => delivering.stop(),
  };
}

/** Starts delivering results. If `deliverTo` names no gateway, nothing is delivered, and nothing is kept for delivery. */
function openDelivering({
  durable,
  keys,
  deliverTo,
  secret,
  resultBytesMax,
  ...options
}: Options): Delivering {
  const { jobs, leaseMs, clock, random, log } = options;
  if (deliverTo.length === 0 || secret === undefined) {
    const long = jobs.list().filter((job) => job.long);
    const reason = "deliver_to names no gateway, so the results of these jobs reach no client";
    if (long.length > 0)
      log.info("results.delivery_disabled", { jobs: long.map(({ name }) => name), reason });
    const nothing = () => {};
    return {
      createReporter: NO_REPORTER,
      toOutgoing: () => undefined,
      onOutgoing: nothing,
      stop: nothing,
      settle: () => Promise.resolve(),
    };
  }
  const gateways = createGateways({ urls: deliverTo, secret, clock });
  const store = createDeliveryStore(durable, keys);
  const deliveries = new Deliveries({ store, gateways, leaseMs, random, log });
  return {
    createReporter: createReporters(gateways, log),
    toOutgoing: createToOutgoing(resultBytesMax),
    onOutgoing: deliveries.wake,
    settle: () => deliveries.stop(),
    stop() {
      void deliveries.stop();
      gateways.close();
    },
  };
}
