import { randomUUID } from "node:crypto";
import type { RequestListener } from "node:http";
import { z } from "zod";
import { type PosternToml, toAnswerOptions, toRunnerRedis } from "../../shared/config/postern-toml.ts";
import { readPostern } from "../../shared/config/read-postern.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { explain, type Readiness } from "../../shared/http/readiness.ts";
import { BODY_BYTES_MAX } from "../../shared/job-call/job-call.ts";
import { mountPath, openPart, type ServedOptions } from "../../shared/library/options.ts";
import { createServedPart, type ServedPart } from "../../shared/library/part.ts";
import type { Connection } from "../../shared/library/redis-option.ts";
import { type Logger, silentLogger } from "../../shared/log/logger.ts";
import { openReports, type Reports } from "../../shared/processes/report.ts";
import { clockCheck, redisClock } from "../../shared/redis/clock.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import { givesWayAbove } from "../../shared/redis/give-way.ts";
import { createClaimRunnerLayout } from "../../shared/redis/layout.ts";
import type { DurabilityMode } from "../../shared/redis/server-state.ts";
import type { Backoff } from "../../shared/time/backoff.ts";
import { type Clock, systemClock, within } from "../../shared/time/clock.ts";
import { createRequestChecks } from "./authenticate.ts";
import { createCallStore, createUntilStored } from "./call-store.ts";
import { KeptAnswers } from "./kept-answers.ts";
import { Leases } from "./leases.ts";
import { createListCalls } from "./list-calls.ts";
import { createLongStore } from "./long-store.ts";
import { openLongCalls } from "./open-long-calls.ts";
import type { Router } from "./router.ts";
import { createRoutes, createRunAgain, createTakeJob } from "./routes.ts";
import { createExecute, createRunBegun, createRunCall } from "./run-call.ts";

export type { PosternFile } from "../../config/schema/files.ts";
export type { Listening, Readiness } from "../../shared/library/part.ts";
export type { Logger } from "../../shared/log/logger.ts";
export type { Answer, Call, Extractor, Job, LongJob, Router, ShortJob } from "./router.ts";
export { bytes, createRouter, json, text } from "./router.ts";

/** Options of `createRunner`. Its own keys are those of `runner` in `postern`. */
export interface RunnerOptions extends ServedOptions {
  /** The router that `createRouter()` returned. */
  jobs: Router;
  /** Largest request body. 64 MiB by default. */
  bodyBytesMax?: number;
}

export type Runner = ServedPart;

/**
 * Runs jobs for producers and remembers what it ran: a call that was answered with 2xx never runs again while its key is
 * remembered. Any number of runners may share one Redis. Throws `start.config_invalid`, which names every option that is wrong.
 */
export function createRunner(options: RunnerOptions): Runner {
  const router = z.unknown().refine(isRouter, "must be a router that createRouter() returned");
  const { postern, log, connection } = openPart(options, {
    need: "requests",
    own: { jobs: router, bodyBytesMax: z.int().min(0).optional(), mountPath },
    read: (tables, env) => readPostern(tables, env, "runner"),
    redisOf: toRunnerRedis,
  });
  const { jobs, bodyBytesMax } = options;
  const { redis } = connection;
  const { durability, declared } = toRunnerRedis(postern);
  // Nobody who reads reports looks for them in a Redis of the runner's own.
  const isShared = postern.runner.redis === undefined;
  const reports = isShared ? openReports({ kind: "runner", postern, redis, log }) : undefined;
  const runner = composeRunner({
    jobs,
    redis,
    durability,
    declared,
    ...toRunnerSettings(postern),
    ...(bodyBytesMax !== undefined && { bodyBytesMax }),
    log,
  });
  return serveRunner(runner, { mountPath: options.mountPath, connection, reports, log });
}

function isRouter(jobs: unknown): boolean {
  return typeof jobs === "object" && jobs !== null && "job" in jobs && typeof jobs.job === "function";
}

type Host = {
  mountPath?: string | undefined;
  connection: Connection;
  /** Undefined if nobody who reads them would find them there. */
  reports?: Reports | undefined;
  log: Logger;
};

/** @internal The life of a runner that was made of its parts. */
export function serveRunner(runner: ComposedRunner, { mountPath, connection, reports, log }: Host): Runner {
  const end = runner.close;
  return createServedPart({
    ...{ ...runner, mountPath, end, connection, reports, graceMs: CLOSE_GRACE_MS, log },
  });
}

/** @internal What a runner takes of a checked `postern.toml`. */
export function toRunnerSettings(postern: PosternToml) {
  const { runner: config, limits } = postern;
  return {
    secrets: config.secret ?? [],
    metadataPrefix: postern.metadata_prefix,
    memoryMs: config.memory_secs * 1000,
    ...toAnswerOptions(postern),
    answersMemoryRatioMax: givesWayAbove(limits.redis_memory_ratio_max).answers,
    leaseMs: config.lease_ms,
    concurrency: config.concurrency,
    longAttempts: config.long_attempts,
    longBackoff: { baseMs: config.long_backoff.base_ms, capMs: config.long_backoff.cap_ms },
    deliverTo: config.deliver_to,
  };
}

/** @internal Of a checked configuration. */
export type ComposedOptions = {
  jobs: Router;
  /** From connectForRequests. */
  redis: Redis;
  durability?: DurabilityMode;
  /** What the service that runs Redis promises, if it hides its settings. */
  declared?: string | undefined;
  /** Any of them may have signed a request. Without secrets, requests need no signature. */
  secrets?: readonly (Secret | string)[];
  metadataPrefix?: string;
  /** How long a key is remembered, with the status and the digest of its first answer. */
  memoryMs?: number;
  /** How long the first answer is kept whole, if there is room, and its call listed. At most `memoryMs` counts. */
  answerMs?: number;
  /** A larger answer is not kept whole. */
  resultBytesMax?: number;
  /** What all answers together may take that are kept whole; the oldest give way. */
  answersBytesMax?: number;
  /** Above this part of Redis' `maxmemory`, no answer is kept whole. */
  answersMemoryRatioMax?: number;
  /** How long a call stays with a runner that no longer renews its lease. */
  leaseMs?: number;
  /** How many requests are taken at once, and how many long calls run at once beside them. */
  concurrency?: number;
  bodyBytesMax?: number;
  /** How many runs of a long call may fail before it is FAILED and waits for an operator. */
  longAttempts?: number;
  /** The pauses between failed runs of a long call. */
  longBackoff?: Backoff;
  /** Ops addresses of gateways, as URLs, to which the results of long calls are delivered; it needs a secret. */
  deliverTo?: readonly string[];
  log?: Logger;
  clock?: Clock;
  random?: () => number;
};

/** @internal */
export type ComposedRunner = {
  /** Resolves once Redis has shown that it keeps what it is given; rejects if the first Redis reached does not. */
  readonly firstCheck: Promise<void>;
  /** For a host with a server of its own. */
  readonly handler: RequestListener;
  readiness(): Readiness;
  /** Takes no more calls. Those under way go on. */
  stop(): void;
  /** Lets running handlers end, and gives long calls back so that they are resumed. */
  settle(): Promise<void>;
  /**
   * Takes no more calls, lets running handlers end, and gives long calls back so that they are resumed. Waits at most
   * `graceMs` (10 s). Leaves the Redis connection to the host.
   */
  close(graceMs?: number): Promise<void>;
};

const CLOSE_GRACE_MS = 10_000;
const DAY_MS = 86_400_000;

/** @internal The runner, made of its parts. */
export function composeRunner({
  jobs,
  redis,
  durability = "strict",
  declared,
  secrets = [],
  metadataPrefix = "X-PLATFORM",
  memoryMs = 30 * DAY_MS,
  answerMs = DAY_MS,
  resultBytesMax = 256 * 1024,
  answersBytesMax = 256 * 1024 * 1024,
  answersMemoryRatioMax = 0.675,
  leaseMs = 30_000,
  concurrency = 100,
  bodyBytesMax = BODY_BYTES_MAX,
  longAttempts = 20,
  longBackoff = { baseMs: 1000, capMs: 900_000 },
  deliverTo = [],
  log = silentLogger,
  clock = systemClock,
  random = Math.random,
}: ComposedOptions): ComposedRunner {
  const abort = new AbortController();
  const ended = abort.signal;
  let draining = false;
  const isDraining = () => draining;

  const durable = new DurableRedis({
    ...{ redis, mode: durability, declared, onUsable: () => wake(), log },
    checkData: createClaimRunnerLayout(redis),
  });
  const store = { durable, owner: randomUUID(), leaseMs, memoryMs };
  const answers = new KeptAnswers({
    ...{ durable, answerMs, resultBytesMax, answersBytesMax, answersMemoryRatioMax, log },
  });
  const calls = createCallStore({ ...store, answers });
  const longStore = createLongStore(store);
  const untilStored = createUntilStored({ ended, log });
  const leases = new Leases({ redis, renew: calls.renew, leaseMs });
  const execute = createExecute({ metadataPrefix, ended, log });
  const signedBy = secrets.map((secret) => (typeof secret === "string" ? new Secret(secret) : secret));
  const longCalls = openLongCalls({
    ...{
      jobs,
      durable,
      calls,
      longStore,
      leases,
      leaseMs,
      execute,
      untilStored,
      concurrency,
      clock,
      random,
      log,
    },
    ...{ attempts: longAttempts, backoff: longBackoff, deliverTo, secret: signedBy[0], resultBytesMax },
  });
  const { wake } = longCalls;

  const { runShort, storeLong } = createRunBegun({ calls, longStore, execute, untilStored, wake, log });
  const { runCall, idle } = createRunCall({ calls, leases, runShort, storeLong });

  const checks = createRequestChecks({
    secrets: signedBy,
    metadataPrefix,
    clock,
  });
  const takeJob = createTakeJob({ jobs, checks, runCall, concurrency, bodyBytesMax, isDraining, clock, log });
  const runAgain = createRunAgain({ checks, longStore, wake, isDraining, log });
  const listCalls = createListCalls(redis, redisClock(redis).now);
  const readiness = createReadiness(durable, isDraining);
  const handler = createRoutes({ jobs, readiness, listCalls, takeJob, runAgain });

  const settle = async (): Promise<void> => {
    await Promise.all([idle(), longCalls.settle()]);
  };

  return {
    firstCheck: durable.firstCheck,
    handler,
    readiness,
    settle,
    stop() {
      draining = true;
    },
    async close(graceMs = CLOSE_GRACE_MS) {
      draining = true;
      const outcome = await within(graceMs, settle());
      abort.abort(new Error("the runner has stopped"));
      for (const part of [leases, answers, durable, longCalls]) part.stop();
      if (outcome.kind === "failed") throw outcome.error;
    },
  };
}

function createReadiness(durable: DurableRedis, isDraining: () => boolean) {
  return (): Readiness => {
    const { ok, text } = explain(() => durable.server().proof);
    const draining = isDraining();
    const checks = {
      redis: text,
      durability: durable.durability.mode,
      ...clockCheck(durable.redis),
      draining,
    };
    return { ready: ok && !draining, checks };
  };
}
