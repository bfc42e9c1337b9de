import { randomUUID } from "node:crypto";
import { z } from "zod";
import { BODY_BYTES_MAX } from "../../shared/call/job-call.ts";
import { toBackoff } from "../../shared/config/jobs-toml.ts";
import { type PosternToml, toAnswerOptions, toRunnerRedis } from "../../shared/config/postern-toml.ts";
import { type PosternConfig, readPostern } from "../../shared/config/read-postern.ts";
import { toDurability } from "../../shared/config/redis-toml.ts";
import { explain, type Readiness } from "../../shared/http/readiness.ts";
import type { Host, PartKind } from "../../shared/part/host.ts";
import { mountPath, openPart, type ServedOptions } from "../../shared/part/options.ts";
import { type ComposedServer, createServedPart, type ServedPart } from "../../shared/part/part.ts";
import { systemClock, within } from "../../shared/platform/time/clock.ts";
import { clockCheck, redisClock } from "../../shared/redis/clock.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import { evictionThresholds } from "../../shared/redis/eviction.ts";
import { runnerKeysOf, runnerPrefixOf } from "../../shared/redis/keys.ts";
import { createClaimRunnerLayout } from "../../shared/redis/layout.ts";
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
export type { Listening, Readiness } from "../../shared/part/part.ts";
export type { Logger } from "../../shared/platform/log/logger.ts";
export type { Answer, Call, Extractor, Job, LongJob, Router, ShortJob } from "./router.ts";
export { bytes, createRouter, json, text } from "./router.ts";

/** Options of `createRunner`. The settings of the runner itself are in `postern.runner`. */
export interface RunnerOptions extends ServedOptions {
  /** The router that `createRouter()` returned. */
  jobs: Router;
  /** Largest request body. 64 MiB by default. */
  bodyBytesMax?: number;
}

export type Runner = ServedPart;

/** @internal */
export const RUNNER: PartKind<PosternConfig> = {
  kind: "runner",
  need: "requests",
  read: (tables, env) => readPostern(tables, env, "runner"),
  redisOf: ({ runner }) => runner.redis,
  prefixOf: runnerPrefixOf,
};

/**
 * Creates a runner, which runs jobs for producers and remembers their answers. A call that was answered with 2xx never runs
 * again while its key is remembered. Any number of runners may share one Redis. Throws `start.config_invalid`, which names
 * every invalid option.
 */
export function createRunner(options: RunnerOptions): Runner {
  const router = z.unknown().refine(isRouter, "must be a router that createRouter() returned");
  const own = { jobs: router, bodyBytesMax: z.int().min(0).optional(), mountPath };
  const host = openPart(options, RUNNER, own);
  const { jobs, bodyBytesMax } = options;
  return createServedPart(composeRunner({ ...host, jobs, bodyBytesMax }), host, options.mountPath);
}

function isRouter(jobs: unknown): boolean {
  return typeof jobs === "object" && jobs !== null && "job" in jobs && typeof jobs.job === "function";
}

const GRACE_MS = 10_000;

type Options = Host & {
  /** Connection to the Redis that has the runners' keys. Its commands must fail fast. The runner does not close it. */
  redis: Redis;
  jobs: Router;
  bodyBytesMax?: number | undefined;
  random?: () => number;
};

/** @internal The composed runner, with the values that the metrics of its process show. */
export type ComposedRunner = ComposedServer & {
  readonly servers: readonly DurableRedis[];
  /** Limit on requests in flight. The same limit applies separately to long calls in flight. */
  readonly slots: number;
  inFlight(): Record<"requests" | "long", number>;
};

/**
 * @internal Composes the runner from its parts. When it is closed, it waits for running handlers of short jobs to end. It
 * aborts long calls and releases them, so that another runner runs them again.
 */
export function composeRunner(options: Options): ComposedRunner {
  const { jobs, postern, redis, log, clock = systemClock, random = Math.random } = options;
  const { secret: secrets = [], concurrency } = postern.runner;
  const { metadata_prefix: metadataPrefix } = postern;
  const { bodyBytesMax = BODY_BYTES_MAX } = options;
  const abort = new AbortController();
  const ended = abort.signal;
  let state: "open" | "draining" | "stopped" = "open";
  const isStopped = () => state === "stopped";

  const stores = openStores(options, () => wake());
  const { durable, keys, calls, longStore, leases, answers } = stores;
  const untilStored = createUntilStored({ ended, log });
  const execute = createExecute({ metadataPrefix, ended, log });
  const work = { jobs, execute, untilStored, clock, random, log };
  const longCalls = openLongCalls({ ...toLongOptions(postern.runner), ...stores, ...work });
  const { wake } = longCalls;

  const { runShort, storeLong } = createRunBegun({ calls, longStore, execute, untilStored, wake, log });
  const runCall = createRunCall({ calls, leases, runShort, storeLong });

  const checks = createRequestChecks({ secrets, metadataPrefix, clock });
  const { takeJob, inFlight, idle } = createTakeJob({
    ...{ jobs, checks, runCall, concurrency, bodyBytesMax, clock, log },
    isDraining: isStopped,
  });
  const runAgain = createRunAgain({ checks, longStore, wake, isDraining: isStopped, log });
  const listCalls = createListCalls(redis, keys, redisClock(redis).now);
  const readiness = createReadiness(durable, () => state !== "open");

  const settle = async () => void (await Promise.all([idle(), longCalls.settle()]));
  const stop = (): void => {
    state = "stopped";
  };
  return {
    servers: [durable],
    slots: concurrency,
    inFlight: () => ({ requests: inFlight(), long: longCalls.inFlight() }),
    firstCheck: durable.firstCheck,
    handler: createRoutes({ jobs, readiness, listCalls, takeJob, runAgain }),
    http: {},
    readiness,
    settle,
    drain() {
      if (state === "open") state = "draining";
      void longCalls.settle();
    },
    stop,
    async retire() {
      await longCalls.retire();
      await idle();
    },
    graceMs: GRACE_MS,
    async close(graceMs = GRACE_MS) {
      stop();
      const outcome = await within(graceMs, settle());
      abort.abort(new Error("the runner has stopped"));
      for (const part of [leases, answers, durable, longCalls]) part.stop();
      if (outcome.kind === "failed") throw outcome.error;
    },
  };
}

/**
 * Creates the stores of calls, which all runners on this Redis share, and the leases of this runner. `onUsable` is called
 * each time Redis becomes usable.
 */
function openStores({ postern, redis, log }: Options, onUsable: () => void) {
  const { lease_ms: leaseMs, memory_secs } = postern.runner;
  const keys = runnerKeysOf(runnerPrefixOf(postern.redis.name));
  const checkData = createClaimRunnerLayout(redis, keys);
  const durability = toDurability(toRunnerRedis(postern));
  const durable = new DurableRedis({ redis, ...durability, checkData, onUsable, log });
  const store = { durable, keys, owner: randomUUID(), leaseMs, memoryMs: memory_secs * 1000 };
  const answersMemoryRatioMax = evictionThresholds(postern.limits.redis_memory_ratio_max).answers;
  const answers = new KeptAnswers({ durable, keys, answersMemoryRatioMax, log, ...toAnswerOptions(postern) });
  const calls = createCallStore({ ...store, answers });
  const longStore = createLongStore(store);
  const leases = new Leases({ redis, renew: calls.renew, leaseMs });
  return { ...store, answers, calls, longStore, leases };
}

function toLongOptions({ concurrency, secret, ...config }: PosternToml["runner"]) {
  return {
    concurrency,
    attempts: config.long_attempts,
    backoff: toBackoff(config.long_backoff),
    deliverTo: config.deliver_to,
    secret: secret?.[0],
    resultBytesMax: config.result_bytes_max,
  };
}

function createReadiness(durable: DurableRedis, isDraining: () => boolean) {
  return (): Readiness => {
    const { ok, text } = explain(() => durable.server().proof);
    const draining = isDraining();
    const checks = {
      redis: text,
      durability: durable.mode,
      ...clockCheck(durable.redis),
      draining,
    };
    return { ready: ok && !draining, checks };
  };
}
