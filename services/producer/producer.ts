import { hostname } from "node:os";
import { ORIGINS, type Origin } from "../../shared/job-call/job-call.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { createCallRecords } from "../../shared/queue/call-record.ts";
import { type Consumer, consume } from "../../shared/queue/consume.ts";
import { beat } from "../../shared/queue/heartbeat.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import type { Backoff } from "../../shared/time/backoff.ts";
import { type Clock, systemClock } from "../../shared/time/clock.ts";
import { createDeliver, type Inject } from "./deliver.ts";
import { createRetryPolicy, type JobRetries } from "./retry-policy.ts";
import { createThrottle } from "./throttle.ts";

export type { Hold } from "../../shared/queue/consume.ts";
export { type DeliveredCall, type Inject, NotNow, Refused } from "./deliver.ts";

export type ProducerOptions = {
  inject: Inject;
  /** The host's own connection, with `maxRetriesPerRequest: null`. */
  redis: Redis;
  log: Logger;
  origins?: readonly Origin[];
  /** Calls injected at once, for each origin. */
  concurrency?: number;
  attempts?: number;
  backoff?: Backoff;
  /** By job key; only the jobs that have other attempts or another backoff. */
  jobs?: ReadonlyMap<string, JobRetries>;
  /** Whether the runner of a job is away, if `inject` can tell. */
  isAway?: (job: string) => boolean;
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
  const { redis, log, clock = systemClock } = options;
  const workerId = `${hostname()}:${process.pid}:${clock().toString(36)}`;
  const consumers = (options.origins ?? ORIGINS).map((origin) => startConsumer(origin, workerId, options));
  const heartbeat = beat(redis, workerId, clock);
  return {
    workerId,
    ready: async () => {
      await Promise.all(consumers.map((consumer) => consumer.ready()));
    },
    isAlive: heartbeat.isFresh,
    close: async (graceMs) => {
      await Promise.all(consumers.map((consumer) => consumer.close(graceMs)));
      await heartbeat.stop();
      log.info("producer.stopped", { workerId });
    },
  };
}

function startConsumer(origin: Origin, workerId: string, options: ProducerOptions): Consumer {
  const { redis, log, clock = systemClock, concurrency = 50, lockMs = 20_000 } = options;
  const throttle = createThrottle({ hold: (_job, ms) => consumer.pauseFor(ms), clock, log });
  const deliver = createDeliver({
    inject: options.inject,
    isAway: restingWhileAway(options, (ms) => consumer.pauseFor(ms)),
    records: createCallRecords(redis),
    policy: createRetryPolicy({
      attempts: options.attempts ?? 20,
      backoff: options.backoff ?? { baseMs: 1000, capMs: 900_000 },
      jobs: options.jobs ?? new Map(),
      random: options.random ?? Math.random,
    }),
    throttle,
    clock,
    log,
    workerId,
  });
  const consumer = consume({ redis, origin, deliver, concurrency, lockMs, workerName: workerId, log });
  return consumer;
}

const REST_MS = 500;

/** A call that goes back is taken again at once. So the consumer rests for a moment each time one does. */
function restingWhileAway(
  { isAway = () => false }: ProducerOptions,
  pauseFor: Consumer["pauseFor"],
): (job: string) => boolean {
  let resting = false;
  return (job) => {
    if (!isAway(job)) return false;
    if (!resting) {
      resting = true;
      const rested = () => {
        resting = false;
      };
      pauseFor(REST_MS).then(rested, rested);
    }
    return true;
  };
}
