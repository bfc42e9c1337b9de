import type { JobsOptions } from "bullmq";

/*
 * The data in Redis through which gateways, producers and operators share the state of each call. The names of the keys are
 * in shared/redis/keys.ts.
 *
 * Every call has a record in addition to its BullMQ job, because BullMQ forgets an id once its job is removed, and silently
 * ignores a second add. The states of the record:
 *
 *   (none) ─► QUEUED ─► INJECTED
 *              │  ▲
 *              ▼  │ replay
 *            FAILED ─► DISCARDED      of a paid call also: FAILED | DISCARDED ─► REFUND_PENDING ─► REFUNDED
 *
 * A 2xx has precedence. A worker may report it late, after another worker took the call over and ended it as FAILED. The
 * state then becomes INJECTED, and the call leaves the failed calls. Once the payment's refund is exported, a 2xx no longer
 * changes the state and is stored as `late`.
 *
 * The script that adds a call writes QUEUED (enqueue.ts). The script that ends a call writes INJECTED (work.lua). A replay, and
 * the script that takes a replayed call, write QUEUED again. FAILED and DISCARDED are written in `call-record.ts`.
 *
 * A paid call begins as a payment (shared/payments/payment.ts), and gets its record once it is QUEUED. A call without a
 * delivery id gets its record when it ends, or when it fails and its job keeps results. QUEUED and FAILED records do not
 * expire. At INJECTED and DISCARDED the record begins to expire, after the time `w`.
 *
 * Fields of every record:
 *   st      state
 *   bh      sha256 of the body
 *   w       window: retention time of the record after the call's end, in ms
 *   at      time of the last change
 *   by      id of the write that created the record, so that a repeat of this write after a lost reply is recognized
 *   jb      job, `<service id>/<job index>`; without a delivery id, only once the state of its result is known
 *   rt      route at which a paid call was bought
 *   unsure  0 while each attempt is known to have had no effect; 1 after an attempt for which this is not known
 *   late    time of a 2xx that came after the refund was exported
 * Fields if the call's job keeps results:
 *   rs      state of the result (shared/call/results/keep-result.lua)
 *   fc, fp  after a failure for good, until a success: its code; title and detail of the runner's problem document, as JSON
 * Field of a forgotten call:
 *   fg      time when an operator forgot it; no data of its sender is kept after that (shared/call-search/forget.ts)
 */

/**
 * Retention time of the record of an ended call without a delivery id. A gateway that got no reply may add the call again
 * after it has ended. This add arrives while the record still exists, and so is recognized.
 */
export const RANDOM_ID_KEEP_MS = 3_600_000;

export const JOB_NAME = "call";

/**
 * BullMQ's options for a call. The producer itself counts attempts and computes backoff, and does not leave this to BullMQ.
 * So its current configuration also applies to calls that already wait. A failed call stays until an operator acts.
 */
export const JOB_OPTIONS = { attempts: 1_000_000, removeOnFail: false } as const satisfies JobsOptions;

/**
 * Limits on the number of processes that die while they work on a call, because the call may be the cause. From the first
 * limit on, only a worker without any other call takes it. At the second limit, the call fails. BullMQ counts in the field
 * `stc` of its job how often a call was taken back. If the worker that lost the call is still alive, it subtracts 1 again
 * (hold.ts).
 */
export const CRASHES = { untilAlone: 2, untilFailed: 3 } as const;
