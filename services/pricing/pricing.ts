import { z } from "zod";
import type { JobPricingFile, PricingFile, X402File } from "../../config/schema/files.ts";
import type { Address } from "../../shared/chain/address.ts";
import { signingTerms } from "../../shared/chain/payment-schemes.ts";
import { warnIfPortable } from "../../shared/chain/secp256k1.ts";
import { createSigner } from "../../shared/chain/signatures.ts";
import { domainSeparator } from "../../shared/chain/typed-data.ts";
import type { CheckedTables } from "../../shared/config/checked-tables.ts";
import { httpUrl, isTable } from "../../shared/config/fields.ts";
import type { PriceList } from "../../shared/config/job-pricing-toml.ts";
import { toConnectionLimits, toProxyOptions } from "../../shared/config/postern-toml.ts";
import { type PricingToml, pricingOptions } from "../../shared/config/pricing-toml.ts";
import { rateProblems } from "../../shared/config/rate-source.ts";
import { toDurability } from "../../shared/config/redis-toml.ts";
import type { Env } from "../../shared/config/secrets.ts";
import { type AcceptedToken, acceptedToken, type X402Toml } from "../../shared/config/x402-toml.ts";
import { createClientAddressOf } from "../../shared/http/client-address.ts";
import { explain, partitionChecks, type Readiness } from "../../shared/http/readiness.ts";
import { createRefusalLog } from "../../shared/http/refusal-log.ts";
import type { ControlHost, PartKind } from "../../shared/part/host.ts";
import { mountPath, openPart, type ServedOptions, tableOption } from "../../shared/part/options.ts";
import { type ComposedServer, createServedPart, type ServedPart } from "../../shared/part/part.ts";
import { systemClock } from "../../shared/platform/time/clock.ts";
import type { JobQuote } from "../../shared/pricing/job-quote.ts";
import {
  currentOffers,
  type RateOf,
  settlementEndpoint,
  toSettlementOption,
} from "../../shared/pricing/prices.ts";
import { createRates } from "../../shared/pricing/rates/rates.ts";
import { type PricingConfig, readPricing } from "../../shared/pricing/read-pricing.ts";
import { clockCheck, redisClock } from "../../shared/redis/clock.ts";
import { createClaimData } from "../../shared/redis/deployment.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import { type GrpcListening, type GrpcParts, listenGrpc } from "./grpc.ts";
import { createHttpHandler } from "./http.ts";
import { createAskPrice, createGetJobPrice, type GetJobPrice, type Settlement } from "./job-price.ts";
import { createProofMemory } from "./proof-memory.ts";

export type { JobPricingFile, PosternFile, PricingFile, X402File } from "../../config/schema/files.ts";
export type { Listening, Readiness } from "../../shared/part/part.ts";
export type { Logger } from "../../shared/platform/log/logger.ts";
export type { GrpcListening } from "./grpc.ts";

export interface PricingOptions extends ServedOptions {
  /** Content of `pricing.toml`. In contrast to the file, `key` may be the key itself: 64 hex digits, with or without 0x. */
  pricing: PricingFile;
  /** Content of `job_pricing.toml`: the jobs and their prices. */
  job_pricing: JobPricingFile;
  /**
   * Two settings of the `x402.toml` of a payment gateway that accepts the quotes. With them, each answer also says how and where
   * its quote can be paid by x402.
   */
  settlement?: Pick<X402File, "public_url" | "accepted_tokens">;
}

export type PricingService = ServedPart & {
  /** The address that signs the quotes. */
  readonly operator: Address;
  /** Answers a request for a job's price with a signed quote. */
  getJobPrice: GetJobPrice;
  /**
   * Serves PricingEngine over gRPC on `host:port`, with gRPC's health and reflection services. The `close()` of the pricing
   * service also ends this server.
   */
  listenGrpc(address: string): Promise<GrpcListening>;
};

/** @internal */
export const PRICING: PartKind<PricingConfig> = {
  kind: "pricing",
  need: "requests",
  read: (tables, env) => readPricing(tables, env, "pricing"),
};

/**
 * Creates a pricing engine inside another program. Throws `start.config_invalid`, which names every invalid option. In contrast
 * to other parts, the engine still answers after `stop()`, until `close()`.
 */
export function createPricingService(options: PricingOptions): PricingService {
  let settlement: X402Settlement | undefined;
  const part: PartKind<PricingConfig> = {
    ...PRICING,
    read(tables, env) {
      settlement = readSettlement(tables, env);
      return readPricing(tables, env, "pricing", pricingOptions({ env }));
    },
  };
  const own = {
    pricing: tableOption,
    job_pricing: tableOption,
    settlement: tableOption.optional(),
    mountPath,
  };
  const host = openPart(options, part, own);
  const service = composePricingService({ ...host, settlement });
  const grpc: GrpcListening[] = [];
  const settle = async () => void (await Promise.all(grpc.map((server) => server.close(service.graceMs))));
  return {
    ...createServedPart({ ...service, settle }, host, options.mountPath),
    operator: service.operator,
    getJobPrice: service.getJobPrice,
    async listenGrpc(address) {
      const server = await listenGrpc(address, service.grpc);
      grpc.push(server);
      return server;
    },
  };
}

/** Reads the option `settlement`. There is no configuration file for it, so `settlement.toml` is only a name for the checks. */
function readSettlement(tables: CheckedTables, env: Env): X402Settlement | undefined {
  return tables.read({
    name: "settlement.toml",
    schema: z.strictObject({
      public_url: httpUrl,
      accepted_tokens: z.array(acceptedToken({ env })).min(1),
    }),
    optional: true,
    problemsIn: (table) => {
      const { accepted_tokens: tokens } = table as { accepted_tokens?: unknown };
      return Array.isArray(tokens) ? tokens.filter(isTable).flatMap(rateProblems) : [];
    },
  });
}

/** @internal Settings of the `x402.toml` of a payment gateway that accepts the quotes. */
export type X402Settlement = Pick<X402Toml, "public_url" | "accepted_tokens">;

type Options = ControlHost & {
  pricing: PricingToml;
  jobs: PriceList;
  /** If present, each answer says how and where its quote can be paid by x402. */
  settlement?: X402Settlement | undefined;
  /** Replaces the rates that the engine would read from their sources. */
  rateOf?: RateOf<AcceptedToken> | undefined;
};

/** @internal */
export type ComposedService = ComposedServer & {
  /** The server of partition 0, the only partition that the engine uses. */
  servers: readonly DurableRedis[];
  /** The address that signs the quotes. */
  readonly operator: Address;
  getJobPrice: GetJobPrice;
  /** The parts that answer PricingEngine over gRPC. */
  grpc: GrpcParts;
  drain(): void;
};

/** @internal Composes the engine from its parts. All state that replicas must share is in Redis. */
export function composePricingService(options: Options): ComposedService {
  const { postern, pricing, jobs, settlement, control: partition, log, clock = systemClock } = options;
  warnIfPortable(log);
  const signer = createSigner(pricing.key.reveal());
  const separator = domainSeparator(pricing.domain);
  const durable = new DurableRedis({
    redis: partition.redis,
    ...toDurability(postern.redis),
    log,
    checkData: createClaimData(partition, options.deployment),
  });
  const memory = createProofMemory({ partition, durable, operator: signer.address, separator });
  const addressOf = createClientAddressOf(toProxyOptions(postern));
  const refusals = createRefusalLog(log, "quote.refused");
  const rates = createRates({ tokens: settlement?.accepted_tokens ?? [], partition, clock, log });
  void rates.start();
  const getJobPrice = createGetJobPrice({
    jobs,
    signer,
    separator,
    powDifficulty: pricing.pow_difficulty,
    quoteSecs: pricing.quote_ttl_secs,
    memory,
    settle: settlement === undefined ? () => undefined : createSettle(settlement, options.rateOf ?? rates.of),
    clock,
    redisTime: options.clock ?? redisClock(partition.redis).now,
  });
  const ask = createAskPrice(getJobPrice, { clock, log, refusals });
  let draining = false;
  const drain = (): void => {
    draining = true;
  };

  function readiness(): Readiness {
    const found = explain(() => durable.server().proof);
    return {
      ready: found.ok && !draining,
      checks: { ...partitionChecks([found]), ...clockCheck(partition.redis), draining },
    };
  }

  return {
    servers: [durable],
    operator: signer.address,
    getJobPrice,
    grpc: { ask, addressOf, isReady: () => readiness().ready },
    handler: createHttpHandler(ask, addressOf),
    http: toConnectionLimits(postern),
    firstCheck: durable.firstCheck,
    readiness,
    drain,
    stop: drain,
    graceMs: 5000,
    async close() {
      rates.close();
      refusals.flush();
      durable.stop();
    },
  };
}

/** Creates the function that says how a quote can be paid at a payment gateway now, in each token whose rate is known. */
function createSettle({ public_url, accepted_tokens }: X402Settlement, rateOf: RateOf<AcceptedToken>) {
  const endpoint = public_url.replace(/\/$/, "");
  return (quote: JobQuote): Settlement => ({
    options: currentOffers(quote.priceWei, accepted_tokens, rateOf).map(({ token, amount }) =>
      toSettlementOption({
        token: { ...token, payTo: token.pay_to, scheme: signingTerms(token).scheme },
        amount,
      }),
    ),
    endpoint: settlementEndpoint(endpoint, quote),
  });
}
