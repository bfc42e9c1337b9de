import { hostname } from "node:os";
import type { Origin } from "../../shared/job-call/job-call.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { createCallRecords } from "../../shared/queue/call-record.ts";
import { consume } from "../../shared/queue/consume.ts";
import { beat } from "../../shared/queue/heartbeat.ts";
import { type JobLimits, openJobs } from "../../shared/queue/jobs.ts";
import { isKnown, originOf } from "../../shared/queue/queue-name.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import { RESULT_LIMITS, type ResultLimits } from "../../shared/results/keep-result.ts";
import type { Backoff } from "../../shared/time/backoff.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { createDeliver, type Inject } from "./deliver.ts";
import { createRetryPolicy, type JobRetries } from "./retry-policy.ts";
import { createThrottle } from "./throttle.ts";

export type { Hold } from "../../shared/queue/hold.ts";
export type { RunnerAnswer } from "../../shared/results/answer.ts";
export { type DeliveredCall, type Inject, NotNow, Refused } from "./deliver.ts";

export type ProducerOptions = {
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
  /** What is kept of the results of calls whose job keeps them. */
  results?: Partial<ResultLimits>;
  /** How long a call stays with a worker that has stopped renewing its lock. An injection has to end within it. */
  lockMs?: number;
  clock?: Clock;
  random?: () => number;
};

export type Producer = {
  readonly workerId: string;
  ready(): Promise<void>;
  /** Whether Redis has answered this worker's heartbeat lately. */
  isAlive(): boolean;
  /** Stops taking calls, waits at most `graceMs` for those in hand, then ends the heartbeat. */
  close(graceMs: number): Promise<void>;
};

/**
 * Takes calls from the queues and injects them, with retries, until the runner owns them or they fail. Any number of
 * producers may run. A call is offered at least once, always under the same idempotency key.
 */
export function createProducer(options: ProducerOptions): Producer {
  const { redis, log, origins, clock = systemClock, concurrency = 100, lockMs = 20_000 } = options;
  const { isAway = () => false, onRunnerChange, limits } = options;
  const workerId = `${hostname()}:${process.pid}:${clock().toString(36)}`;
  const partition = partitionOf(redis);
  const jobs = openJobs(partition);
  const results = { ...RESULT_LIMITS, ...options.results };
  const deliver = createDeliver({
    inject: options.inject,
    isAway,
    records: createCallRecords(partition),
    policy: createRetryPolicy({
      attempts: options.attempts ?? 20,
      backoff: options.backoff ?? { baseMs: 1000, capMs: 900_000 },
      jobs: options.jobs ?? new Map(),
      random: options.random ?? Math.random,
    }),
    throttle: createThrottle({ throttleJob: jobs.throttle, clock, log }),
    resultBytesMax: results.resultBytesMax,
    clock,
    log,
    workerId,
  });
  const consumer = consume({
    partition,
    serves: (queue) =>
      isKnown(queue) && (origins === undefined || origins.some((origin) => originOf(queue) === origin)),
    isClosed: isAway,
    deliver,
    prepare: limits && (() => jobs.configure(limits)),
    slots: concurrency,
    bodyBudgetBytes: options.bodyBudgetBytes ?? 256 * 2 ** 20,
    lockMs,
    results,
    workerName: workerId,
    log,
  });
  onRunnerChange?.(consumer.refill);
  const heartbeat = beat(partition, workerId, clock);
  return {
    workerId,
    ready: consumer.ready,
    isAlive: heartbeat.isFresh,
    close: async (graceMs) => {
      await consumer.close(graceMs);
      await heartbeat.stop();
      log.info("producer.stopped", { workerId });
    },
  };
}
