import type { RequestListener } from "node:http";
import { z } from "zod";
import type { JobPricingFile, PricingFile, X402File } from "../../config/schema/files.ts";
import type { CheckedTables } from "../../shared/config/checked-tables.ts";
import { httpUrl, isTable } from "../../shared/config/fields.ts";
import type { PriceList } from "../../shared/config/job-pricing-toml.ts";
import { toHttpOptions } from "../../shared/config/postern-toml.ts";
import { pricingOptions } from "../../shared/config/pricing-toml.ts";
import { type LiveSource, rateProblems } from "../../shared/config/rate-source.ts";
import type { Env } from "../../shared/config/secrets.ts";
import { acceptedToken } from "../../shared/config/x402-toml.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import type { Address } from "../../shared/ethereum/address.ts";
import { warnIfPortable } from "../../shared/ethereum/secp256k1.ts";
import { createSigner } from "../../shared/ethereum/signatures.ts";
import { domainSeparator, type Eip712Domain } from "../../shared/ethereum/typed-data.ts";
import { createClientAddressOf, type ForwardedHeader } from "../../shared/http/client-address.ts";
import { explain, type Readiness } from "../../shared/http/readiness.ts";
import { createRefusalLog } from "../../shared/http/refusal-log.ts";
import { mountPath, openPart, type ServedOptions, tableOption } from "../../shared/library/options.ts";
import { createServedPart, type ServedPart } from "../../shared/library/part.ts";
import { type Logger, silentLogger } from "../../shared/log/logger.ts";
import type { JobQuote } from "../../shared/pricing/job-quote.ts";
import {
  currentOffers,
  type RateOf,
  settlementEndpoint,
  toSettlementOption,
} from "../../shared/pricing/prices.ts";
import { readPricingConfig } from "../../shared/pricing/pricing-checks.ts";
import { createRates } from "../../shared/pricing/rates/rates.ts";
import { fixedRateOf } from "../../shared/pricing/rates/sources/fixed.ts";
import { openReports } from "../../shared/processes/report.ts";
import { clockCheck, redisClock } from "../../shared/redis/clock.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import { createClaimLayout } from "../../shared/redis/layout.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import type { DurabilityMode } from "../../shared/redis/server-state.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { type GrpcListening, listenGrpc } from "./grpc.ts";
import { createHttpHandler } from "./http.ts";
import { createAskPrice, createGetJobPrice, type GetJobPrice, type Settlement } from "./job-price.ts";
import { createProofMemory } from "./proof-memory.ts";

export type { JobPricingFile, PosternFile, PricingFile, X402File } from "../../config/schema/files.ts";
export type { Listening, Readiness } from "../../shared/library/part.ts";
export type { Logger } from "../../shared/log/logger.ts";
export type { GrpcListening } from "./grpc.ts";

export interface PricingOptions extends ServedOptions {
  /** Content of `pricing.toml`. Unlike in the file, `key` may be the key itself: 64 hex digits, with or without 0x. */
  pricing: PricingFile;
  /** Content of `job_pricing.toml`: what is quoted. */
  job_pricing: JobPricingFile;
  /** These keys of the `x402.toml` of a gateway that takes the quotes: each answer also says how and where its quote can be settled. */
  settlement?: Pick<X402File, "public_url" | "accepted_tokens">;
}

export type PricingService = ServedPart & {
  /** The address that signs the quotes. */
  readonly operator: Address;
  /** Answers what a job costs with a signed quote. */
  getJobPrice: GetJobPrice;
  /** Serves PricingEngine over gRPC, with health and reflection, on `host:port`; `close()` ends it too. */
  listenGrpc(address: string): Promise<GrpcListening>;
};

/**
 * A pricing engine for a program of your own. Throws `start.config_invalid`, which names every option that is wrong. Unlike the other
 * parts, it goes on answering after `stop()`, until `close()`.
 */
export function createPricingService(options: PricingOptions): PricingService {
  const { pricing, jobs, settlement, postern, log, connection } = openPart(options, {
    need: "requests",
    own: { pricing: tableOption, job_pricing: tableOption, settlement: tableOption.optional(), mountPath },
    read: readOptions,
  });
  const { redis } = connection;
  const reports = openReports({ kind: "pricing", postern, config: { pricing, jobs }, redis, log });
  const plain = composePricingService({
    jobs,
    key: pricing.key,
    domain: pricing.domain,
    powDifficulty: pricing.pow_difficulty,
    quoteTtlSecs: pricing.quote_ttl_secs,
    maxQuoteAgeSecs: pricing.max_quote_age_secs,
    redis,
    durability: postern.redis.durability,
    declared: postern.redis.declared,
    http: toHttpOptions(postern),
    log,
  });
  const { public_url: endpoint, accepted_tokens: acceptedTokens = [] } = settlement;
  const rates = createRates({
    tokens: acceptedTokens,
    partition: partitionOf(redis),
    clock: systemClock,
    log,
  });
  void rates.start();
  const service =
    endpoint === undefined ? plain : plain.withX402Settlement({ endpoint, acceptedTokens, rateOf: rates.of });
  const grpc: GrpcListening[] = [];
  const part = createServedPart({
    ...service,
    mountPath: options.mountPath,
    stop: service.drain,
    settle: async () => void (await Promise.all(grpc.map((server) => server.close(CLOSE_GRACE_MS)))),
    end() {
      rates.close();
      service.close();
    },
    reports,
    connection,
    connectionsMax: postern.http.connections,
    keepAliveMs: postern.http.keep_alive_secs * 1000,
    graceMs: CLOSE_GRACE_MS,
    log,
  });
  return {
    ...part,
    operator: service.operator,
    getJobPrice: service.getJobPrice,
    async listenGrpc(address) {
      const server = await service.listenGrpc(address);
      grpc.push(server);
      return server;
    },
  };
}

/** Reads the files of the pricing engine, and `settlement`, which is in no file. */
function readOptions(tables: CheckedTables, env: Env) {
  const schema = z.strictObject({
    public_url: httpUrl,
    accepted_tokens: z.array(acceptedToken({ env })).min(1),
  });
  const settlement = tables.read({
    name: "settlement.toml",
    schema,
    optional: true,
    problemsIn: (table) => {
      const { accepted_tokens: tokens } = table as { accepted_tokens?: unknown };
      return Array.isArray(tokens) ? tokens.filter(isTable).flatMap(rateProblems) : [];
    },
  });
  const config = readPricingConfig(tables, env, "pricing", pricingOptions({ env }));
  return { ...config, settlement: settlement ?? ({} as Partial<z.output<typeof schema>>) };
}

const CLOSE_GRACE_MS = 5000;

/** @internal Of a checked configuration. */
export type ComposedOptions = {
  jobs: PriceList;
  key: Pick<Secret, "reveal">;
  domain: Eip712Domain;
  /** Leading zero bits of a proof of work. */
  powDifficulty: number;
  quoteTtlSecs: number;
  maxQuoteAgeSecs: number;
  /** Holds what all replicas remember. While it is away, commands must fail instead of waiting. */
  redis: Redis;
  durability: DurabilityMode;
  /** What the service that runs Redis promises, if it hides its settings. */
  declared?: string | undefined;
  log?: Logger;
  clock?: Clock;
  /** Which proxies are believed for whom they ask, over either protocol; none by default. */
  http?: { trustedProxies?: readonly string[]; forwardedHeader?: ForwardedHeader };
};

/** @internal A token that an x402 gateway accepts, as in x402.toml. */
export type AcceptedToken = {
  network: string;
  asset: string;
  symbol: string;
  decimals: number;
  markup_bps: number;
  pay_to: string;
  /** Tokens for 10^18 wei, a decimal number; or the source of that number, as `x402Toml` has read it. */
  rate_per_native_unit: string | LiveSource;
};

/** @internal */
export type X402Settlement<Token extends AcceptedToken> = {
  /** The public URL of the x402 gateway that takes the quotes. */
  endpoint: string;
  acceptedTokens: readonly Token[];
  /** What a token is worth now, as `createRates` knows it. By default its `rate_per_native_unit`, which has to be text then. */
  rateOf?: RateOf<Token>;
};

/** @internal */
export type ComposedService = {
  /** The address that signs the quotes. */
  readonly operator: Address;
  getJobPrice: GetJobPrice;
  /** Serves PricingEngine over gRPC, with health and reflection. */
  listenGrpc(address: string): Promise<GrpcListening>;
  /** The same over HTTP and JSON, to be mounted on any server. */
  readonly handler: RequestListener;
  /**
   * Returns the same service with answers that also say how and where a quote can be settled off chain.
   */
  withX402Settlement<Token extends AcceptedToken>(settlement: X402Settlement<Token>): ComposedService;
  /** Resolves if the first Redis that is reached is durable and for this release; rejects if it is not. */
  readonly firstCheck: Promise<void>;
  readiness(): Readiness;
  /** From now on it reports that it is not ready, but goes on answering. */
  drain(): void;
  /** Ends the service's timers. Call it last, when no more requests can arrive. */
  close(): void;
};

/** @internal The engine, made of its parts. What its replicas must agree on is in Redis. */
export function composePricingService(options: ComposedOptions): ComposedService {
  const {
    jobs,
    key,
    domain,
    powDifficulty,
    redis,
    durability,
    declared,
    log = silentLogger,
    clock = systemClock,
  } = options;
  warnIfPortable(log);
  const signer = createSigner(key.reveal());
  const separator = domainSeparator(domain);
  const quoteSecs = Math.min(options.quoteTtlSecs, options.maxQuoteAgeSecs);
  const partition = partitionOf(redis);
  const durable = new DurableRedis({
    redis,
    ...{ mode: durability, declared },
    checkData: createClaimLayout(partition),
    log,
  });
  const memory = createProofMemory({ partition, durable, operator: signer.address, separator });
  const addressOf = createClientAddressOf(options.http);
  const refusals = createRefusalLog(log, "quote.refused");
  let draining = false;

  function readiness(): Readiness {
    const found = explain(() => `ok (${durable.server().proof})`);
    return { ready: found.ok && !draining, checks: { redis: found.text, ...clockCheck(redis), draining } };
  }

  function serviceWith(settle: (quote: JobQuote) => Settlement | undefined): ComposedService {
    const getJobPrice = createGetJobPrice({
      jobs,
      signer,
      separator,
      powDifficulty,
      quoteSecs,
      memory,
      settle,
      clock,
      redisTime: options.clock ?? redisClock(redis).now,
    });
    const ask = createAskPrice(getJobPrice, { clock, log, refusals });
    return {
      operator: signer.address,
      getJobPrice,
      listenGrpc: (address) => listenGrpc(address, { ask, addressOf, isReady: () => readiness().ready }),
      handler: createHttpHandler(ask, addressOf),
      withX402Settlement: (settlement) => serviceWith(createSettle(settlement)),
      firstCheck: durable.firstCheck,
      readiness,
      drain() {
        draining = true;
      },
      close() {
        refusals.flush();
        durable.stop();
      },
    };
  }

  return serviceWith(() => undefined);
}

/** How a quote can be settled at an x402 gateway now: in every token whose rate is known. */
function createSettle<Token extends AcceptedToken>(settlement: X402Settlement<Token>) {
  const { acceptedTokens, rateOf = fixedRateOf } = settlement;
  const endpoint = settlement.endpoint.replace(/\/$/, "");
  return (quote: JobQuote): Settlement => ({
    options: currentOffers(quote.priceWei, acceptedTokens, rateOf).map(({ token, amount }) =>
      toSettlementOption({ token: { ...token, payTo: token.pay_to }, amount }),
    ),
    endpoint: settlementEndpoint(endpoint, quote),
  });
}
