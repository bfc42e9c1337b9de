import { type JobsOptions, Queue, type QueueOptions, type WorkerOptions } from "bullmq";
import type { JobCall, Origin } from "../job-call/job-call.ts";
import type { Logger } from "../log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import { PREFIX } from "../redis/keys.ts";

export const JOB_NAME = "call";

/**
 * How a call lies in BullMQ. Attempts and backoff are the producer's to decide, so that its configuration also governs
 * calls that already wait: here attempts never run out and every delay is asked of the producer's strategy.
 * A finished call leaves at once (what is kept is its record); a failed one never leaves by itself.
 */
export const JOB_OPTIONS = {
  attempts: 1_000_000,
  backoff: { type: "postern" },
  removeOnComplete: true,
  removeOnFail: false,
  stackTraceLimit: 1,
} as const satisfies JobsOptions;

/** BullMQ's event stream is nobody's source here; by default it keeps 10,000 entries. */
export const EVENTS_KEPT = 100;

/**
 * Opening a queue writes nothing: BullMQ would write its settings once, when it is made, and not at all while Redis is
 * away. Both skips together make an add fail at once, and recover, when Redis was away at the start.
 */
export const QUEUE_OPTIONS = {
  prefix: PREFIX,
  skipVersionCheck: true,
  skipWaitingForReady: true,
  skipMetasUpdate: true,
} as const satisfies Omit<QueueOptions, "connection">;

/** However often a worker dies with a call in hand, the call goes back to waiting: a crash never fails it. */
export const WORKER_OPTIONS = {
  prefix: PREFIX,
  maxStalledCount: 1_000_000,
  runRetryDelay: 1000,
  metrics: { maxDataPoints: 60 },
} as const satisfies Omit<WorkerOptions, "connection">;

/** A worker beats this often; one silent for three beats counts as gone. */
export const HEARTBEAT_EVERY_MS = 2000;
export const HEARTBEAT_FRESH_MS = 3 * HEARTBEAT_EVERY_MS;

/** How long the INJECTED mark of a call without evidence lives: longer than any late repeat of its add. */
export const RANDOM_ID_MARK_MS = 3_600_000;

/** Of the failed attempts of a call, the newest this many are kept. */
export const ATTEMPTS_KEPT = 50;

/** Of the audit, about the newest this many lines are kept. */
export const AUDIT_KEPT = 100_000;

/** An origin's queue, to look into and to operate on; opening it writes nothing. Redis' own errors reach the caller. */
export function openQueue(redis: Redis, origin: Origin): Queue<JobCall> {
  const queue = new Queue<JobCall>(origin, { ...QUEUE_OPTIONS, connection: redis });
  queue.on("error", () => {});
  return queue;
}

const CONNECTION =
  /ECONN|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|Connection is closed|enableOfflineQueue|writeable/;

type Reports = { on(event: "error", listener: (error: Error) => void): unknown };

/** Logs what BullMQ reports, except that Redis is away: the connection says that itself, once, and not per try. */
export function logErrors(source: Reports, { origin, log }: { origin: Origin; log: Logger }): void {
  source.on("error", (error: Error) => {
    if (CONNECTION.test(`${"code" in error ? error.code : ""} ${error.message}`)) return;
    log.warn("queue.error", { origin, reason: error.message });
  });
}
