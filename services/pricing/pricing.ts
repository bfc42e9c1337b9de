import type { RequestListener } from "node:http";
import type { JobPrice } from "../../shared/config/job-pricing-toml.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import type { Address } from "../../shared/ethereum/address.ts";
import { createSigner, isPrivateKey } from "../../shared/ethereum/signatures.ts";
import { domainSeparator, type Eip712Domain } from "../../shared/ethereum/typed-data.ts";
import type { Readiness } from "../../shared/http/ops.ts";
import { explain } from "../../shared/http/readiness.ts";
import { type Logger, silentLogger } from "../../shared/log/logger.ts";
import type { JobQuote } from "../../shared/pricing/job-quote.ts";
import {
  currentOffers,
  type RateOf,
  settlementEndpoint,
  toPriceList,
  toSettlementOption,
} from "../../shared/pricing/prices.ts";
import { fixedRateOf } from "../../shared/pricing/rates/source.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { DurableRedis } from "../../shared/redis/durable-redis.ts";
import type { DurabilityMode } from "../../shared/redis/server-state.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { type GrpcListening, listenGrpc } from "./grpc.ts";
import { createHttpHandler } from "./http.ts";
import {
  createAsk,
  createGetJobPrice,
  type GetJobPrice,
  type GetJobPriceDeps,
  type Settlement,
} from "./job-price.ts";
import { createProofMemory } from "./proof-memory.ts";

/** Keeps the rates of tokens current: `of` is what `rateOf` of an x402 settlement takes. */
export { createRates } from "../../shared/pricing/rates/rates.ts";

export type PricingOptions = {
  jobs: Iterable<JobPrice>;
  /** The operator's private key: 0x and 64 hex digits. */
  key: Pick<Secret, "reveal">;
  domain: Eip712Domain;
  /** Leading zero bits of a proof of work. */
  powDifficulty: number;
  quoteTtlSecs: number;
  maxQuoteAgeSecs: number;
  /** For what all replicas remember. Commands have to fail, not wait, while it is away. */
  redis: Redis;
  durability: DurabilityMode;
  log?: Logger;
  clock?: Clock;
};

export type PricingService = {
  /** Who signs the quotes. */
  readonly operator: Address;
  getJobPrice: GetJobPrice;
  /** Serves PricingEngine over gRPC, with health and reflection. */
  listenGrpc(address: string): Promise<GrpcListening>;
  /** The same over HTTP and JSON, to be mounted on any server. */
  readonly handler: RequestListener;
  /** The same service, whose answers also say how and where a quote can be settled off chain. This one stays as it is. */
  withX402Settlement<Token extends AcceptedToken>(settlement: X402Settlement<Token>): PricingService;
  /** Resolves when the first Redis reached keeps promises; rejects when it does not. */
  readonly firstCheck: Promise<void>;
  readiness(): Readiness;
  /** Says that it is not ready, and answers on. */
  drain(): void;
  /** Ends the service's timers. Call it last, when nothing more can arrive. */
  close(): void;
};

/** A pricing engine, to be mounted in any process; what two replicas have to agree on is in Redis. */
export function createPricingService(options: PricingOptions): PricingService {
  const { key, domain, redis, durability, log = silentLogger, clock = systemClock } = options;
  if (!isPrivateKey(key.reveal())) throw noKey();
  const durable = new DurableRedis({ redis, mode: durability, log });
  const signer = createSigner(key.reveal());
  const separator = domainSeparator(domain);
  const deps = {
    jobs: toPriceList(options.jobs),
    signer,
    separator,
    powDifficulty: options.powDifficulty,
    quoteSecs: Math.min(options.quoteTtlSecs, options.maxQuoteAgeSecs),
    memory: createProofMemory(durable, { operator: signer.address, separator }),
    settle: () => undefined,
    clock,
  };
  return toService({ deps, durable, log, life: { draining: false } });
}

type Parts = { deps: GetJobPriceDeps; durable: DurableRedis; log: Logger; life: { draining: boolean } };

function toService(parts: Parts): PricingService {
  const { deps, durable, log, life } = parts;
  const getJobPrice = createGetJobPrice(deps);
  const ask = createAsk({ getJobPrice, clock: deps.clock, log });
  const readinessNow = (): Readiness => {
    const redis = explain(() => `ok (${durable.server().proof})`);
    return { ready: redis.ok && !life.draining, checks: { redis: redis.text, draining: life.draining } };
  };
  return {
    operator: deps.signer.address,
    getJobPrice,
    listenGrpc: (address) => listenGrpc(address, { ask, isReady: () => readinessNow().ready }),
    handler: createHttpHandler({ ask, isEnding: () => life.draining }),
    withX402Settlement: (settlement) =>
      toService({ ...parts, deps: { ...deps, settle: createSettle(settlement) } }),
    firstCheck: durable.firstCheck,
    readiness: readinessNow,
    drain() {
      life.draining = true;
    },
    close: () => durable.stop(),
  };
}

function noKey(): AppError {
  return new AppError("start.config_invalid", { reason: "key: must be a private key: 0x and 64 hex digits" });
}

/** A token that a gateway takes, as x402.toml has it. */
export type AcceptedToken = {
  network: string;
  asset: string;
  symbol: string;
  decimals: number;
  markup_bps: number;
  pay_to: string;
  rate_per_native_unit: unknown;
};

export type X402Settlement<Token extends AcceptedToken> = {
  /** The public URL of the x402 gateway that takes the quotes. */
  endpoint: string;
  acceptedTokens: readonly Token[];
  /** What a token is worth now, as `createRates` has it; by default its `rate_per_native_unit`, where that is a text. */
  rateOf?: RateOf<Token>;
};

/** How a quote can be settled at an x402 gateway now: in every token whose rate is known. */
export function createSettle<Token extends AcceptedToken>(settlement: X402Settlement<Token>) {
  const { acceptedTokens, rateOf = fixedRateOf } = settlement;
  const endpoint = settlement.endpoint.replace(/\/$/, "");
  return (quote: JobQuote): Settlement => ({
    options: currentOffers(quote.priceWei, acceptedTokens, rateOf).map(({ token, amount }) =>
      toSettlementOption({ token: { ...token, payTo: token.pay_to }, amount }),
    ),
    endpoint: settlementEndpoint(endpoint, quote),
  });
}
