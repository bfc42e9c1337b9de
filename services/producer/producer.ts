import { hostname } from "node:os";
import { z } from "zod";
import type { PosternFile } from "../../config/schema/files.ts";
import { type CallHistory, createCallHistory, type HistoryLimits } from "../../shared/call-history/keep.ts";
import { toCallbackOptions } from "../../shared/config/callbacks-toml.ts";
import { toHistoryLimits } from "../../shared/config/console-toml.ts";
import { isTable } from "../../shared/config/fields.ts";
import { DEFAULT_RUNNER, toJobs } from "../../shared/config/jobs-toml.ts";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import { type Problem, problem } from "../../shared/config/problem.ts";
import { readPostern } from "../../shared/config/read-postern.ts";
import { toResultLimits } from "../../shared/config/results-toml.ts";
import { tellFollowers } from "../../shared/events/publish.ts";
import { explain, type Readiness } from "../../shared/http/readiness.ts";
import { ORIGINS, type Origin } from "../../shared/job-call/origin.ts";
import { functionOption, openPart, type PartOptions } from "../../shared/library/options.ts";
import { createPart, type Part } from "../../shared/library/part.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { publishCallbackKeys } from "../../shared/processes/callback-keys.ts";
import { openReports } from "../../shared/processes/report.ts";
import { createCallRecords } from "../../shared/queue/call-record.ts";
import { consume, type Deliver } from "../../shared/queue/consume.ts";
import { beat } from "../../shared/queue/heartbeat.ts";
import { type JobLimits, openJobs } from "../../shared/queue/jobs.ts";
import {
  CALLBACKS_GATE,
  isKnown,
  isOfCallbacks,
  originOf,
  receiverOfGate,
} from "../../shared/queue/queue-name.ts";
import { clockCheck, redisClock } from "../../shared/redis/clock.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import { createClaimLayout } from "../../shared/redis/layout.ts";
import { type Partition, partitionOf } from "../../shared/redis/partition.ts";
import { RESULT_LIMITS, type ResultLimits } from "../../shared/results/limits.ts";
import { createResults } from "../../shared/results/store.ts";
import type { Backoff } from "../../shared/time/backoff.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { type CallbackDeps, type CallbackOptions, createCallbacks } from "./callbacks/callbacks.ts";
import { createDeliver, type Inject } from "./deliver.ts";
import { createRetryPolicy, type JobRetries } from "./outcomes.ts";
import { createRunners, type Runners } from "./runners.ts";
import { createThrottle } from "./throttle.ts";

export type { PosternFile } from "../../config/schema/files.ts";
export type { Logger } from "../../shared/log/logger.ts";
export type { Hold } from "../../shared/queue/hold.ts";
export type { RunnerAnswer } from "../../shared/results/answer.ts";
export type { DeliveredCall, Inject } from "./deliver.ts";
export { NotNow, Refused } from "./outcomes.ts";

/** Options of `createProducer`. Set `inject`, or `runner.url` of `postern`. */
export interface ProducerOptions extends PartOptions {
  /** Takes each call in this process, instead of a runner. */
  inject?: Inject;
  /** The calls that the producer takes. All by default. */
  origins?: readonly Origin[];
}

export type Producer = Part & {
  /** Its name in the log, and in what Redis holds of calls in hand. */
  readonly workerId: string;
};

/**
 * A producer for a program of your own: it takes calls from the queues and injects them, with retries, until the runner owns them or they
 * fail. Any number may run. A call is offered at least once, always under the same idempotency key. Throws `start.config_invalid`, which
 * names every option that is wrong.
 */
export function createProducer(options: ProducerOptions): Producer {
  const { inject, origins, postern: table = {} } = options;
  // The time-out of the default runner limits no `inject`.
  const withoutRunner = isTable(table) && { ...table, runner: { timeout_ms: 1 } };
  const checked = inject && withoutRunner ? { ...options, postern: withoutRunner } : options;
  const { postern, log, connection } = openPart(checked, {
    need: "work",
    own: { inject: functionOption.optional(), origins: z.array(z.enum(ORIGINS)).min(1).optional() },
    read(tables, env) {
      if (isTable(table)) tables.report("postern.toml", targetProblems(inject, table));
      return readPostern(tables, env, "producer");
    },
  });
  const { redis } = connection;
  const reports = openReports({ kind: "producer", postern, redis, log });
  const producer = openProducer({
    postern,
    inject,
    setsLimits: table.jobs !== undefined,
    ...(origins && { origins }),
    redis,
    log: reports.log,
  });
  if (producer.runners !== undefined) reports.watchRunners(producer.runners);
  const part = createPart({
    firstCheck: producer.ready(),
    readiness: producer.readiness,
    stop: producer.stop,
    end: producer.close,
    reports,
    connection,
    graceMs: producer.graceMs,
  });
  return { ...part, workerId: producer.workerId };
}

/** A call goes to one place: `inject`, or runners. */
function targetProblems(inject: Inject | undefined, { runner, runners, jobs }: PosternFile): Problem[] {
  // In the file the URL has a default, which here would hide that it was forgotten.
  if (inject === undefined && runner?.url === undefined)
    return [{ ...problem(["runner", "url"], "is missing: set it, or inject"), other: ["runner"] }];
  if (inject === undefined) return [];
  const unused = (path: string | string[]) => problem(path, "is not used: inject gets every call");
  return [
    ...(runner === undefined ? [] : [unused("runner")]),
    ...(runners === undefined ? [] : [unused("runners")]),
    ...Object.entries(jobs ?? {}).flatMap(([key, job]) =>
      (["runner", "timeout_ms"] as const)
        .filter((name) => job?.[name] !== undefined)
        .map((name) => unused(["jobs", key, name])),
    ),
  ];
}

type OpenOptions = {
  postern: PosternToml;
  /** In place of the runners of `postern`. */
  inject?: Inject | undefined;
  /** Whether the jobs of `postern` are all that have limits. */
  setsLimits: boolean;
  origins?: readonly Origin[];
  redis: Redis;
  log: Logger;
};

/** @internal A producer by a checked configuration, and its connections to the runners. */
export function openProducer({ postern, inject, setsLimits, origins, redis, log }: OpenOptions) {
  const { producer: config } = postern;
  const jobs = toJobs(postern);
  const runners = inject === undefined ? openRunners(postern, jobs, redis, log) : undefined;
  const producer = composeProducer({
    ...(runners === undefined
      ? { inject: inject as Inject }
      : { inject: runners.inject, isAway: runners.isAway, onRunnerChange: runners.onChange }),
    ...(setsLimits && { limits: jobs }),
    ...(postern.callbacks && { callbacks: toCallbackOptions(postern.callbacks) }),
    ...(origins && { origins }),
    redis,
    log,
    concurrency: config.concurrency,
    bodyBudgetBytes: config.body_budget_bytes,
    attempts: config.attempts,
    backoff: { baseMs: config.backoff.base_ms, capMs: config.backoff.cap_ms },
    jobs,
    results: toResultLimits(postern),
    history: toHistoryLimits(postern),
    lockMs: config.lock_ms,
  });
  const timeouts = [postern.runner, ...Object.values(postern.runners)].map(({ timeout_ms }) => timeout_ms);
  const ofJobs = [...jobs.values()].map(({ timeoutMs = 0 }) => timeoutMs);
  const ofCallbacks = postern.callbacks?.timeout_ms ?? 0;
  const longestMs = inject === undefined ? Math.max(...timeouts, ...ofJobs, ofCallbacks) : config.lock_ms;
  let stopped = false;
  return {
    workerId: producer.workerId,
    ready: producer.ready,
    /** Undefined with an `inject` of the program's own. */
    runners,
    readiness(): Readiness {
      const beating = producer.isAlive();
      const found = explain(() => {
        producer.assertUsable();
        return redis.status;
      });
      return {
        ready: beating && found.ok && !stopped,
        checks: { redis: found.text, beating, ...clockCheck(redis) },
      };
    },
    /** How long injections under way may take to end. */
    graceMs: longestMs + 1000,
    stop() {
      stopped = true;
      producer.stop();
    },
    async close(graceMs: number) {
      stopped = true;
      await producer.close(graceMs);
      await runners?.close();
    },
  };
}

/** Signatures and what is told of the runners are by Redis' clock, so that they are right although this machine's clock is wrong. */
function openRunners(
  postern: PosternToml,
  jobs: ReturnType<typeof toJobs>,
  redis: Redis,
  log: Logger,
): Runners {
  const named = Object.entries({ ...postern.runners, [DEFAULT_RUNNER]: postern.runner });
  return createRunners({
    runners: Object.fromEntries(
      named.map(([name, { url, secret, timeout_ms: timeoutMs }]) => [
        name,
        { url, secret: secret?.[0], timeoutMs },
      ]),
    ),
    jobs,
    connections: postern.producer.concurrency,
    resultBytesMax: toResultLimits(postern).resultBytesMax,
    clock: redisClock(redis).now,
    log,
  });
}

type ComposedCallbacks = CallbackOptions &
  Pick<CallbackDeps, "resolve" | "ca"> & { attempts: number; backoff: Backoff };

/** @internal */
export type ComposedOptions = {
  inject: Inject;
  /** The host's own connection, with `maxRetriesPerRequest: null`. */
  redis: Redis;
  log: Logger;
  origins?: readonly Origin[];
  /** Calls injected at once, 100 by default. One job gets at most half of them. */
  concurrency?: number;
  /** So many bytes of calls, as they are stored, are in hand at once. 256 MiB by default. */
  bodyBudgetBytes?: number;
  attempts?: number;
  backoff?: Backoff;
  /** By job key; only the jobs that have other attempts or another backoff. */
  jobs?: ReadonlyMap<string, JobRetries>;
  /**
   * By job key, for all producers together. They are set before this producer takes its first call, and those of other jobs
   * are removed. Without it those that are set stay.
   */
  limits?: ReadonlyMap<string, JobLimits>;
  /** Whether the runner of a job is away, if `inject` can tell. */
  isAway?: (job: string) => boolean;
  /** Registers what is to be called when `isAway` has changed. */
  onRunnerChange?: (listener: () => void) => void;
  /** How callbacks are sent; without it they wait for another producer. */
  callbacks?: ComposedCallbacks;
  /** What is kept of the results of calls whose job keeps them. */
  results?: Partial<ResultLimits>;
  /** What is remembered of the calls that runners took; nothing without it. */
  history?: HistoryLimits | undefined;
  /** How long a call stays with a worker that has stopped renewing its lock. An injection has to end within it. */
  lockMs?: number;
  /** In place of the process's clock and of Redis', as it is known here. */
  clock?: Clock;
  random?: () => number;
};

/** @internal */
export type ComposedProducer = {
  readonly workerId: string;
  ready(): Promise<void>;
  /** Throws why Redis cannot be used now. */
  assertUsable(): void;
  /** Whether Redis has answered this worker's heartbeat lately. */
  isAlive(): boolean;
  /** Takes no more calls. Those in hand go on. */
  stop(): void;
  /** Stops taking calls, waits at most `graceMs` for those in hand, then ends the heartbeat. */
  close(graceMs: number): Promise<void>;
};

/** What becomes of the calls of jobs, and of callbacks. */
function createDelivering(
  options: ComposedOptions,
  partition: Partition,
  history: CallHistory | undefined,
  log: Logger,
  workerId: string,
) {
  const { random = Math.random, callbacks: settings } = options;
  const redisTime = options.clock ?? redisClock(partition.redis).now;
  const attempts = options.attempts ?? 20;
  const backoff = options.backoff ?? { baseMs: 1000, capMs: 900_000 };
  const shared = {
    records: createCallRecords(partition),
    throttle: createThrottle({
      throttleJob: openJobs(partition).throttle,
      clock: options.clock ?? systemClock,
      log,
    }),
    resultBytesMax: options.results?.resultBytesMax ?? RESULT_LIMITS.resultBytesMax,
    ...{ clock: redisTime, log, workerId },
  };
  const deliverCall = createDeliver({
    ...shared,
    inject: options.inject,
    isAway: options.isAway ?? (() => false),
    remember: (call, attempt) => history?.add(call, attempt),
    policy: createRetryPolicy({ attempts, backoff, jobs: options.jobs ?? new Map(), random }),
  });
  const callbacks =
    settings && createCallbacks({ ...settings, results: createResults(partition), clock: redisTime, log });
  const deliverCallback =
    callbacks &&
    createDeliver({
      ...shared,
      inject: callbacks.inject,
      isAway: () => false,
      remember: () => {},
      policy: createRetryPolicy({ ...settings, jobs: new Map(), random }),
    });
  return {
    deliver: ((taken, hold) => {
      const deliver = isOfCallbacks(taken.queue) ? deliverCallback : deliverCall;
      return deliver === undefined ? Promise.resolve({ kind: "requeue" }) : deliver(taken, hold);
    }) satisfies Deliver as Deliver,
    close: async () => callbacks?.close(),
  };
}

/** Sets what holds over all producers, if this one has to. */
function preparing({ limits, callbacks }: ComposedOptions, partition: Partition) {
  const jobs = openJobs(partition);
  const ofCallbacks = callbacks && { concurrency: callbacks.concurrency };
  if (limits !== undefined)
    return () => jobs.configure(ofCallbacks ? new Map([...limits, [CALLBACKS_GATE, ofCallbacks]]) : limits);
  return ofCallbacks && (() => jobs.limit(CALLBACKS_GATE, ofCallbacks));
}

/** @internal The producer, made of its parts. */
export function composeProducer(options: ComposedOptions): ComposedProducer {
  const { redis, origins, clock = systemClock, concurrency = 100, lockMs = 20_000 } = options;
  const { isAway = () => false, onRunnerChange, callbacks } = options;
  const workerId = `${hostname()}:${process.pid}:${clock().toString(36)}`;
  const partition = partitionOf(redis);
  const redisTime = options.clock ?? redisClock(redis).now;
  const log = tellFollowers(options.log, { partition, service: "producer", clock });
  const durable = new DurableRedis({
    redis,
    mode: "relaxed", // what is lost of its writes is done again
    checkData: createClaimLayout(partition),
    log: { ...log, info() {} }, // it would say how durable they are
  });
  const history =
    options.history && createCallHistory({ partition, limits: options.history, clock: redisTime, log });
  const stopPublishing = callbacks && publishCallbackKeys(partition, callbacks.secrets);
  const delivering = createDelivering(options, partition, history, log, workerId);
  const consumer = consume({
    partition,
    server: durable,
    serves: (queue) =>
      isKnown(queue) &&
      (callbacks !== undefined || !isOfCallbacks(queue)) &&
      (origins === undefined || origins.some((origin) => originOf(queue) === origin)),
    isClosed: (gate) => receiverOfGate(gate) === undefined && isAway(gate),
    deliver: delivering.deliver,
    prepare: preparing(options, partition),
    slots: concurrency,
    bodyBudgetBytes: options.bodyBudgetBytes ?? 256 * 2 ** 20,
    lockMs,
    results: { ...RESULT_LIMITS, ...options.results },
    workerName: workerId,
    log,
  });
  onRunnerChange?.(consumer.refill);
  const heartbeat = beat(partition, workerId, clock);
  return {
    workerId,
    ready: consumer.ready,
    assertUsable: () => durable.assertUsable(),
    isAlive: heartbeat.isFresh,
    stop: consumer.stop,
    close: async (graceMs) => {
      await consumer.close(graceMs);
      await delivering.close();
      stopPublishing?.();
      await history?.stop();
      durable.stop();
      await heartbeat.stop();
      log.stop();
      log.info("producer.stopped", { workerId });
    },
  };
}
