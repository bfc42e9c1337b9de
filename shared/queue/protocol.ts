import type { JobsOptions, QueueOptions, WorkerOptions } from "bullmq";
import type { Origin } from "../job-call/job-call.ts";

/*
 * What the processes on both sides of Redis must agree on, written once.
 *
 *   {postern}:webhook:*  {postern}:x402:*   BullMQ's keys, one queue per origin, so that neither starves the other
 *   {postern}:call:<id>                     hash: the record of a call (call-record.ts)
 *   {postern}:attempts:<id>                 list: the failed attempts of a call, as JSON, oldest first
 *   {postern}:since:<origin>                zset: since when a call that failed once, or was replayed, has waited
 *   {postern}:payment:<id>                  hash: what a paid call was paid with (shared/payments)
 *   {postern}:payments                      zset: every payment, by the time it was claimed
 *   {postern}:payments:due                  zset: payments the reconciler is to look at, by when
 *   {postern}:payments:unresolved           zset: payments that are SETTLING or SETTLED, by the time they were claimed
 *   {postern}:payments:review               zset: payments in REVIEW, by the time they were claimed
 *   {postern}:payments:open:<payer>         set: a payer's payments that are SETTLING or in REVIEW
 *   {postern}:payment-id:<payer>:<id>       hash: the call that a payer's own payment identifier stands for
 *   {postern}:quote:<digest>                string: the call that an operator's quote was used up by
 *   {postern}:caller-nonce:<hash>           string: a caller's nonce that was used
 *   {postern}:pricing:proof:<hash>          string: the first answer a proof of work was used for (services/pricing)
 *   {postern}:rate:<identity>               hash: the last good value of a rate's source (shared/rates)
 *   {postern}:workers                       zset: worker id, by the time of its last heartbeat
 *   {postern}:audit                         stream: who replayed, discarded or resolved what
 *
 * The hash tag keeps all of them in one slot of a Redis Cluster.
 */
export const PREFIX = "{postern}";

export const keys = {
  record: (callId: string) => `${PREFIX}:call:${callId}`,
  attempts: (callId: string) => `${PREFIX}:attempts:${callId}`,
  since: (origin: Origin) => `${PREFIX}:since:${origin}`,
  /** BullMQ's own: the failed calls of an origin, by the time they failed. */
  failed: (origin: Origin) => `${PREFIX}:${origin}:failed`,
  payment: (callId: string) => `${PREFIX}:payment:${callId}`,
  payments: `${PREFIX}:payments`,
  paymentsDue: `${PREFIX}:payments:due`,
  paymentsUnresolved: `${PREFIX}:payments:unresolved`,
  paymentsInReview: `${PREFIX}:payments:review`,
  openPayments: (payer: string) => `${PREFIX}:payments:open:${payer}`,
  paymentIdentifier: (payer: string, identifier: string) => `${PREFIX}:payment-id:${payer}:${identifier}`,
  usedQuote: (digest: string) => `${PREFIX}:quote:${digest}`,
  callerNonce: (hash: string) => `${PREFIX}:caller-nonce:${hash}`,
  pricingProof: (hash: string) => `${PREFIX}:pricing:proof:${hash}`,
  rate: (identity: string) => `${PREFIX}:rate:${identity}`,
  workers: `${PREFIX}:workers`,
  audit: `${PREFIX}:audit`,
} as const;

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
