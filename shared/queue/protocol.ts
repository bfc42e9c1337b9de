import { type JobsOptions, Queue, type QueueOptions, type WorkerOptions } from "bullmq";
import type { JobCall, Origin } from "../job-call/job-call.ts";
import type { Logger } from "../log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import { PREFIX } from "../redis/keys.ts";

/*
 * What gateways, producers and operators must agree on; the keys are in shared/redis/keys.ts.
 *
 * Every call has a record beside its BullMQ job, because BullMQ forgets an id once its job is removed, and ignores a second
 * add without saying so. The states of the record:
 *
 *   (none) ─claim─► CLAIMED ─add─► QUEUED ─► INJECTED
 *                                    │  ▲
 *                                    ▼  │ replay
 *                                  FAILED ─► DISCARDED
 *
 * A paid call begins as a payment (shared/payments/payment.ts) and comes here as SETTLED. A call without a delivery id is not
 * claimed: its record appears when it ends.
 * A CLAIMED record lives for the deduplication window. QUEUED and FAILED records do not expire. At INJECTED and DISCARDED
 * the window begins again.
 * Fields: st state, bh body sha256, w window in ms, at time of the last change, by the request that claimed the call; of a
 * paid call also rt, the route that it was bought at.
 */
export type RecordState = "CLAIMED" | "SETTLED" | "QUEUED" | "FAILED" | "INJECTED" | "DISCARDED";

/** KEYS record. ARGV now, from states... Changes one of these states to QUEUED. Answers the state found. */
export const MOVE_TO_QUEUED = `
local st = redis.call('HGET', KEYS[1], 'st')
for i = 2, #ARGV do
  if st == ARGV[i] then
    redis.call('HSET', KEYS[1], 'st', 'QUEUED', 'at', ARGV[1])
    redis.call('PERSIST', KEYS[1])
    break
  end
end
return st`;

export const JOB_NAME = "call";

/**
 * How a call lies in BullMQ. Attempts and backoff are left to the producer, so that its configuration also holds for calls
 * that already wait: in BullMQ, attempts never run out, and every delay comes from the producer's strategy.
 * A finished call leaves at once; its record stays. A failed call never leaves by itself.
 */
export const JOB_OPTIONS = {
  attempts: 1_000_000,
  backoff: { type: "postern" },
  removeOnComplete: true,
  removeOnFail: false,
  stackTraceLimit: 1,
} as const satisfies JobsOptions;

/**
 * Opening a queue writes nothing. BullMQ would write its settings only once, when the queue is opened, and not at all if
 * Redis is away then. With both skips, an add fails at once if Redis is away at the start, and works when Redis is back.
 */
export const QUEUE_OPTIONS = {
  prefix: PREFIX,
  skipVersionCheck: true,
  skipWaitingForReady: true,
  skipMetasUpdate: true,
} as const satisfies Omit<QueueOptions, "connection">;

/** However often a worker dies with a call in hand, the call waits again: a crash never makes a call FAILED. */
export const WORKER_OPTIONS = {
  prefix: PREFIX,
  maxStalledCount: 1_000_000,
  runRetryDelay: 1000,
  metrics: { maxDataPoints: 60 },
} as const satisfies Omit<WorkerOptions, "connection">;

/** An origin's queue, for reading and for operators. Opening it writes nothing. Errors of Redis reach the caller only. */
export function openQueue(redis: Redis, origin: Origin): Queue<JobCall> {
  const queue = new Queue<JobCall>(origin, { ...QUEUE_OPTIONS, connection: redis });
  queue.on("error", () => {});
  return queue;
}

const CONNECTION =
  /ECONN|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|Connection is closed|enableOfflineQueue|writeable/;

/** Logs the errors that BullMQ reports, except those of the connection: the connection logs them itself, and only once. */
export function logErrors(
  source: { on(event: "error", listener: (error: Error) => void): unknown },
  origin: Origin,
  log: Logger,
): void {
  source.on("error", (error: Error) => {
    if (CONNECTION.test(`${"code" in error ? error.code : ""} ${error.message}`)) return;
    log.warn("queue.error", { origin, reason: error.message });
  });
}
