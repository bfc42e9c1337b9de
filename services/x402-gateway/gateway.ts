import type { PriceList } from "../../shared/config/job-pricing-toml.ts";
import type { X402Toml } from "../../shared/config/x402-toml.ts";
import { createEthCall } from "../../shared/ethereum/rpc.ts";
import { type Gateway, type IngressOptions, openIngress } from "../../shared/gateway/ingress.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { createPaymentJournal } from "../../shared/payments/journal.ts";
import { createRates, type ObservedRate } from "../../shared/pricing/rates/rates.ts";
import { isQueued } from "../../shared/queue/is-queued.ts";
import type { Clock } from "../../shared/time/clock.ts";
import { toCatalog } from "./catalog.ts";
import { createChains } from "./chains.ts";
import { createFacilitators } from "./facilitator/pool.ts";
import { createFinish } from "./payment/finish.ts";
import { createCallerPolicy } from "./policy/caller.ts";
import { createIsPermittedCaller } from "./policy/permitted-callers.ts";
import { readiness } from "./readiness.ts";
import { startReconciler } from "./reconciler/reconciler.ts";
import { createAskedTally } from "./routes/asked-tally.ts";
import { createAnswerAll } from "./routes/routes.ts";

/** Check tables of `x402.toml` and `job_pricing.toml`, and put prices on jobs. */
export { parseJobPricing } from "../../shared/config/job-pricing-toml.ts";
export { x402Toml } from "../../shared/config/x402-toml.ts";
export { toPriceList } from "../../shared/pricing/prices.ts";

const CALLER_CHECK_TIMEOUT_MS = 3000;

export type X402GatewayOptions = IngressOptions & {
  x402: X402Toml;
  prices: PriceList;
  metadataPrefix: string;
};

export type X402Gateway = Gateway & {
  /** What is known now of each token's rate. */
  rates(): ObservedRate[];
  /** Ends the gateway's timers and connections. Call it last, when nothing more can arrive. */
  close(): Promise<void>;
};

/** The payment gateway, to be mounted in any process; what two replicas have to agree on is in Redis or on the chain. */
export function createX402Gateway(options: X402GatewayOptions): X402Gateway {
  const ingress = openIngress("x402", options);
  const parts = { ...ingress, ...makeParts(options, ingress) };
  const { admission, chains, facilitators, rates } = parts;
  const { trust_facilitator: trustFacilitator, settle_timeout_secs } = options.x402;
  const readinessNow = () =>
    readiness({
      admission: () => admission.readiness(),
      facilitators,
      chains,
      rates: rates.observed,
      trustFacilitator,
    });
  const handler = createAnswerAll({ ...parts, readiness: readinessNow });
  const reconciler = startReconciler({
    ...parts,
    chainOf: ({ terms }) => chains.of(terms),
    isQueued: (id) => isQueued(options.redis, "x402", id),
    settleTimeoutMs: settle_timeout_secs * 1000,
  });
  facilitators.start();
  chains.start();
  rates.start();
  return {
    ...ingress.handle,
    handler,
    readiness: readinessNow,
    rates: rates.observed,
    async close() {
      parts.asked.flush();
      await reconciler.stop();
      rates.close();
      await Promise.all([facilitators.close(), chains.close()]);
      ingress.close();
    },
  };
}

type Ingress = ReturnType<typeof openIngress>;

function makeParts({ x402, prices, metadataPrefix }: X402GatewayOptions, ingress: Ingress) {
  const { redis, clock, log } = ingress;
  const journal = createPaymentJournal(redis);
  const rates = createRates({ tokens: x402.accepted_tokens, redis, clock, log });
  const isPermittedCaller = createIsPermittedCaller({ chainAt: toContractCalls, clock });
  return {
    x402,
    metadataPrefix,
    asked: createAskedTally(log),
    rates,
    catalog: toCatalog(x402, prices, rates.of),
    journal,
    chains: createChains(x402, { clock, log }),
    facilitators: createFacilitators(toFacilitatorOptions(x402, { clock, log })),
    finish: createFinish({ ...ingress, journal }),
    authorizeCaller: createCallerPolicy({ metadataPrefix, clock, isPermittedCaller }),
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
