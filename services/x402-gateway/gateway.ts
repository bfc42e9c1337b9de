import type { RequestListener } from "node:http";
import { createEthCall } from "../../shared/chain/eth-call.ts";
import type { AcceptedToken, X402Toml } from "../../shared/config/x402-toml.ts";
import type { Readiness } from "../../shared/http/ops.ts";
import { nothingHappens, type Reached } from "../../shared/lifecycle/crash-point.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { createPaymentJournal } from "../../shared/payments/journal.ts";
import type { PriceList } from "../../shared/prices/price-list.ts";
import { Admission } from "../../shared/queue/admission.ts";
import { Backpressure, type Limits } from "../../shared/queue/backpressure.ts";
import { createDepth } from "../../shared/queue/depth.ts";
import { createAdd } from "../../shared/queue/enqueue.ts";
import { isQueued } from "../../shared/queue/is-queued.ts";
import { createUntilKnown } from "../../shared/queue/until-known.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { DurableRedis } from "../../shared/redis/durable-redis.ts";
import type { DurabilityMode } from "../../shared/redis/server-state.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { createAnswerAll } from "./answer-all.ts";
import { createAskedTally } from "./asked-tally.ts";
import { createCallerPolicy } from "./caller-policy.ts";
import { toCatalogue } from "./catalogue.ts";
import { createChains } from "./chains.ts";
import { createFacilitators } from "./facilitators.ts";
import { createFinish } from "./finish.ts";
import { createIsPermittedCaller } from "./permitted-callers.ts";
import { readiness } from "./readiness.ts";
import { startReconciler } from "./reconciler.ts";

/** Check tables of `x402.toml` and `job_pricing.toml`, and put prices on jobs. */
export { parseJobPricing } from "../../shared/config/job-pricing-toml.ts";
export { x402Toml } from "../../shared/config/x402-toml.ts";
export { toPriceList } from "../../shared/prices/price-list.ts";

const CALLER_CHECK_TIMEOUT_MS = 3000;

export type X402GatewayOptions = {
  x402: X402Toml;
  prices: PriceList<AcceptedToken>;
  metadataPrefix: string;
  /** The host's own connection; it must fail fast: no offline queue, no resending, a command timeout. */
  redis: Redis;
  durability: DurabilityMode;
  limits: Limits;
  /** How long a write to Redis is tried before its outcome counts as unknown. */
  enqueueTimeoutMs: number;
  log: Logger;
  clock?: Clock;
  reached?: Reached;
};

export type X402Gateway = {
  /** For `http.createServer`, its `checkContinue` event, or as a middleware's last word. */
  handler: RequestListener;
  readiness(): Readiness;
  /** Rejects when the first Redis reached cannot keep what a 202 promises. */
  firstCheck: Promise<void>;
  pressure(): ReturnType<Backpressure["seen"]>;
  /** From now on: not ready, and every answer ends its connection; what arrives is still taken. */
  drain(): void;
  /** From now on new payments are refused with `service.draining`; what was begun is finished. */
  stop(): void;
  /** Ends the gateway's timers and connections. Call it last, when nothing more can arrive. */
  close(): Promise<void>;
};

/** The payment gateway, to be mounted in any process; what two replicas have to agree on is in Redis or on the chain. */
export function createX402Gateway(options: X402GatewayOptions): X402Gateway {
  const parts = makeParts(options);
  const { admission, backpressure, chains, durable, facilitators } = parts;
  const { trust_facilitator: trustFacilitator, settle_timeout_secs } = options.x402;
  const readinessNow = () =>
    readiness({ admission: () => admission.readiness(), facilitators, chains, trustFacilitator });
  const handler = createAnswerAll({ ...parts, readiness: readinessNow });
  const reconciler = startReconciler({
    ...parts,
    chainOf: ({ terms }) => chains.of(terms),
    isQueued: (id) => isQueued(options.redis, "x402", id),
    settleTimeoutMs: settle_timeout_secs * 1000,
  });
  facilitators.start();
  chains.start();
  return {
    handler,
    readiness: readinessNow,
    firstCheck: durable.firstCheck,
    pressure: () => backpressure.seen(),
    drain: () => admission.drain(),
    stop: () => admission.stop(),
    async close() {
      parts.asked.flush();
      await reconciler.stop();
      await Promise.all([facilitators.close(), chains.close()]);
      backpressure.stop();
      durable.stop();
    },
  };
}

function makeParts(options: X402GatewayOptions) {
  const { x402, metadataPrefix, redis, limits, log } = options;
  const { clock = systemClock, reached = nothingHappens } = options;
  const durable = new DurableRedis({ redis, mode: options.durability, log });
  const backpressure = new Backpressure({
    durable,
    readDepth: createDepth(redis, "x402"),
    limits,
    clock,
    log,
  });
  const journal = createPaymentJournal(redis);
  const isPermittedCaller = createIsPermittedCaller({ chainAt: toContractCalls, clock });
  return {
    x402,
    metadataPrefix,
    asked: createAskedTally(log),
    catalogue: toCatalogue(x402, options.prices),
    durable,
    backpressure,
    admission: new Admission({ durable, backpressure }),
    untilKnown: createUntilKnown({ redis: durable, clock, deadlineMs: options.enqueueTimeoutMs }),
    journal,
    chains: createChains(x402, { clock, log }),
    facilitators: createFacilitators(toFacilitatorOptions(x402, { clock, log })),
    finish: createFinish({ journal, add: createAdd(redis, "x402", log), clock, reached }),
    authorizeCaller: createCallerPolicy({ metadataPrefix, clock, isPermittedCaller }),
    clock,
    log,
    reached,
  };
}

function toContractCalls(rpcUrl: Parameters<typeof createEthCall>[0]["rpcUrl"]) {
  return { ethCall: createEthCall({ rpcUrl, timeoutMs: CALLER_CHECK_TIMEOUT_MS }) };
}

function toFacilitatorOptions(x402: X402Toml, rest: { clock: Clock; log: Logger }) {
  return {
    urls: x402.facilitator_url,
    headers: x402.facilitator_headers,
    verifyTimeoutMs: x402.facilitator_timeout_secs * 1000,
    settleTimeoutMs: x402.settle_timeout_secs * 1000,
    ...rest,
  };
}
