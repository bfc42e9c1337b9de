import type { RequestListener } from "node:http";
import { type PosternToml, toHttpOptions, toLimits } from "../config/postern-toml.ts";
import { toAskOptions } from "../config/results-toml.ts";
import type { Secret } from "../crypto/secret.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import { createClientAddressOf, type ForwardedHeader } from "../http/client-address.ts";
import type { Readiness } from "../http/readiness.ts";
import type { Origin } from "../job-call/origin.ts";
import type { Logger } from "../log/logger.ts";
import { createReadDepth } from "../queue/depth.ts";
import { redisClock } from "../redis/clock.ts";
import type { Redis } from "../redis/connect.ts";
import { DurableRedis } from "../redis/durable.ts";
import { LargeWrites } from "../redis/large-writes.ts";
import { createClaimLayout } from "../redis/layout.ts";
import type { Partition } from "../redis/partition.ts";
import { createBeginWrite } from "../redis/retry-write.ts";
import type { DurabilityMode } from "../redis/server-state.ts";
import { createChanges } from "../results/changes.ts";
import { createResults } from "../results/store.ts";
import { type Clock, systemClock } from "../time/clock.ts";
import { Admission } from "./admission.ts";
import { createAwaitResults } from "./await-result.ts";
import { Backpressure, type Limits, limitsOf, type Pressure, unsettledBytesMaxOf } from "./backpressure.ts";
import { createCallStreams, type StreamLimits } from "./call-streams.ts";
import type { ResultWrites } from "./deliveries.ts";
import { watchHistory } from "./history.ts";
import { watchResults } from "./results-room.ts";

export type IngressOptions = {
  /**
   * The host's own connection. It must fail fast: no offline queue, no resending, a command timeout. With the first large
   * call the gateway opens another one like it, which it closes itself.
   */
  redis: Redis;
  durability: DurabilityMode;
  /** What the service that runs Redis promises, if it hides its settings. */
  declared?: string | undefined;
  limits: Limits;
  /** How long a write to Redis is tried before its outcome counts as unknown; a large one (large-writes.ts) for longer. */
  enqueueTimeoutMs: number;
  log: Logger;
  /** In place of the process's clock and of Redis', as it is known here. */
  clock?: Clock;
  http?: HttpOptions;
  results?: AskOptions;
};

/** Who may ask for results, wait for them, or watch calls: `[results]`. */
export type AskOptions = {
  /** Their HMACs are the tokens; none by default. */
  secrets?: readonly Secret[];
  /** How long a client may wait at most; 30 s by default. */
  waitMsMax?: number;
  /** How many may wait at a time; 2048 by default. */
  waitersMax?: number;
  /** How many streams there may be; 1000, and 16 for each call, by default. */
  streams?: StreamLimits;
};

export const WAIT_MS_MAX = 30_000;
const WAITERS_MAX = 2048;

export type HttpOptions = {
  /** Addresses and CIDR ranges of the proxies that are believed whom they ask for; none by default. */
  trustedProxies?: readonly string[];
  /** The one header in which they say so; `X-Forwarded-For` by default. */
  forwardedHeader?: ForwardedHeader;
  /** What the bodies in flight at this gateway may take together; 256 MiB by default. */
  bodyBudgetBytes?: number;
};

/** What a gateway takes of `postern.toml`. */
export function toIngressOptions(postern: PosternToml) {
  return {
    metadataPrefix: postern.metadata_prefix,
    durability: postern.redis.durability,
    declared: postern.redis.declared,
    limits: toLimits(postern),
    enqueueTimeoutMs: postern.limits.enqueue_timeout_ms,
    http: toHttpOptions(postern),
    results: toAskOptions(postern),
  };
}

/** A gateway of either kind, as its process holds it. */
export type Gateway = {
  /** For `http.createServer` and its `checkContinue` event, or as the last middleware of a host's own app. */
  handler: RequestListener;
  readiness(): Readiness;
  /**
   * Rejects if the first Redis reached cannot keep what a 202 promises, or holds the data of another release; of a payment gateway also
   * if a token's contract is not as configured.
   */
  firstCheck: Promise<void>;
  pressure(): Pressure | undefined;
  /** What the bodies in flight take of their budget. */
  bodyBytes(): number;
  /** How many clients wait for a result. */
  waiting(): number;
  /** How many streams watch calls. */
  streaming(): number;
  /** For what runners deliver, which only the gateway's process takes. */
  resultWrites: ResultWrites;
  /** From now on it is not ready, and all waits for results and streams end; requests are still taken. */
  drain(): void;
  /** From now on it refuses requests with `service.draining`; those under way are finished. For hosts whose server goes on. */
  stop(): void;
};

/** What both gateways stand on: whether calls can be taken now, how one is added, and what its request may cost before. */
export function openIngress(origin: Origin, partition: Partition, options: IngressOptions) {
  const { redis } = partition;
  const { durability: mode, declared, limits, log, clock = systemClock, http = {} } = options;
  const redisTime = options.clock ?? redisClock(redis).now;
  const large = new LargeWrites({ beside: partition, mode, declared, clock, log });
  const durable = new DurableRedis({
    redis,
    ...{ mode, declared },
    checkData: createClaimLayout(partition),
    patienceMs: () => large.patienceMs(),
    log,
  });
  const readDepth = createReadDepth(partition, origin);
  const own = limitsOf(origin, limits);
  const ofQueue = { durable, partition, readDepth, limits: own };
  const backpressure = new Backpressure({ ...ofQueue, clock: redisTime, log });
  const fills = { partition, durable, webhooksAbove: limits.redisMemoryRatioMax, log };
  const givingWay = [watchHistory(fills), watchResults(fills)];
  const clientAddressOf = createClientAddressOf(http);
  const bodies = createBodyBudget({ bytesMax: http.bodyBudgetBytes, addressOf: clientAddressOf, log });
  const beginWrite = createBeginWrite({ small: durable, large, clock, deadlineMs: options.enqueueTimeoutMs });
  const admission = new Admission(durable, backpressure);
  const results = createResults(partition);
  const changes = createChanges(partition);
  const { waitersMax = WAITERS_MAX } = options.results ?? {};
  const waits = createAwaitResults({ results, changes, waitersMax, clock, log });
  const streams = createCallStreams({ results, changes, limits: options.results?.streams, clock, log });
  return {
    clientAddressOf,
    bodies,
    admission,
    results,
    waits,
    streams,
    /** For what is written to Redis, compared with what it holds, or agreed on with other processes. */
    redisTime,
    /** The keys over the connection for large writes. */
    largePartition: large.partition,
    beginWrite,
    resultWrites: { small: partition, large: large.partition, beginWrite } satisfies ResultWrites,
    firstCheck: durable.firstCheck,
    isUsable: () => durable.isUsable,
    unsettledBytesMax: () => unsettledBytesMaxOf(limits, durable.server().maxMemoryBytes),
    pressure: () => backpressure.seen(),
    /** From now on it is not ready, and who waits for a result is answered, or watches a call has to come again. */
    drain(): void {
      admission.drain();
      waits.end();
      streams.end();
    },
    /** From now on it takes no requests. */
    stop(): void {
      admission.stop();
      waits.end();
      streams.end();
    },
    /** Ends the timers, and the connections beside the host's. */
    close(): void {
      changes.close();
      bodies.flush();
      backpressure.stop();
      for (const each of givingWay) each.stop();
      durable.stop();
      large.close();
    },
  };
}
