import type { Secret } from "../../shared/platform/crypto/secret.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import type { RunnerKeys } from "../../shared/redis/keys.ts";
import { Deliveries } from "./deliveries.ts";
import { createDeliveryStore } from "./delivery-store.ts";
import { createGateways } from "./gateways.ts";
import { LongCalls, type LongCallsOptions } from "./long-calls.ts";
import { createToOutgoing } from "./outgoing.ts";
import { createTellerOf, NO_TELLER } from "./progress.ts";

type Delivering = Pick<LongCallsOptions, "createTeller" | "toOutgoing" | "onOutgoing"> & {
  settle(): Promise<void>;
  /** Ends what is under way. */
  stop(): void;
};

type Options = Omit<LongCallsOptions, keyof Delivering> & {
  durable: DurableRedis;
  keys: RunnerKeys;
  deliverTo: readonly string[];
  /** Signs what is delivered. */
  secret: Secret | undefined;
  resultBytesMax: number;
};

/** The long calls of a runner, and the delivery of their results. */
export function openLongCalls({ durable, keys, deliverTo, secret, resultBytesMax, ...options }: Options) {
  const delivering = openDelivering({ durable, keys, deliverTo, secret, resultBytesMax, ...options });
  const longCalls = new LongCalls({ ...options, ...delivering });
  return {
    /** Looks now for calls that are due, and for results that are. */
    wake(): void {
      longCalls.wake();
      delivering.onOutgoing();
    },

    inFlight: () => longCalls.inFlight,

    /**
     * Claims nothing more. Resolves when what runs and the deliveries in flight have ended. Results of what still runs are delivered by
     * the next configuration, or by another runner: the gateways of this one may be wrong.
     */
    async retire(): Promise<void> {
      await Promise.all([longCalls.retire(), delivering.settle()]);
    },

    /** Claims nothing more, gives back what runs, and resolves when that and the deliveries in flight have ended. */
    async settle(): Promise<void> {
      await longCalls.stop();
      await delivering.settle();
    },

    stop: () => delivering.stop(),
  };
}

/** Without `deliverTo` nothing is delivered, and nothing is kept for it. */
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
      createTeller: NO_TELLER,
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
    createTeller: createTellerOf(gateways, log),
    toOutgoing: createToOutgoing(resultBytesMax),
    onOutgoing: deliveries.wake,
    settle: () => deliveries.stop(),
    stop() {
      void deliveries.stop();
      gateways.close();
    },
  };
}
