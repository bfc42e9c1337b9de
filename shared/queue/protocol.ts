import type { JobsOptions } from "bullmq";

/*
 * What gateways, producers and operators must agree on; the keys are in shared/redis/keys.ts.
 *
 * Every call has a record beside its BullMQ job, because BullMQ forgets an id once its job is removed, and ignores a second
 * add without saying so. The states of the record:
 *
 *   (none) ─► QUEUED ─► INJECTED
 *              │  ▲
 *              ▼  │ replay
 *            FAILED ─► DISCARDED      of a paid call also: FAILED | DISCARDED ─► REFUND_PENDING ─► REFUNDED
 *
 * A 2xx wins: told late, of a call that another worker has ended as FAILED, it makes it INJECTED and takes it off the failed calls. Once
 * the payment's refund is exported it changes no state, and is noted as `late`.
 *
 * The step that adds a call writes QUEUED (enqueue.ts), the one that ends it INJECTED, and the one that takes it QUEUED again after a
 * replay (work.lua); FAILED, DISCARDED and a replay's QUEUED are in call-record.ts.
 *
 * A paid call begins as a payment (shared/payments/payment.ts), and its record is here once it is QUEUED. The record of a call
 * without a delivery id appears when it ends, or fails and its job keeps results. QUEUED and FAILED records do not expire. At INJECTED and DISCARDED the window begins.
 * Fields: st state, bh body sha256, w window in ms, at time of the last change, by the request that claimed the call, jb its job
 * (`<service id>/<job index>`; of a call without a delivery id only once its result is known of); of a
 * paid call also rt, the route that it was bought at; unsure, 0 while each attempt is known to have had no effect, 1 from the first one
 * on of which that is not known; and late, when a 2xx came too late.
 * Of a call whose job keeps results: rs, what is known of its result (shared/call/results/keep-result.lua); and if it failed for good, until it
 * ends well: fc, the code, and fp, the title and detail of its runner's problem document, as JSON.
 * Of a call that an operator had forgotten: fg, when. Nothing of its sender is kept from then on (shared/call-search/forget.ts).
 */

/** How long the record of an ended call without a delivery id lives: longer than any late repeat of its add takes. */
export const RANDOM_ID_KEEP_MS = 3_600_000;

export const JOB_NAME = "call";

/**
 * How a call lies in BullMQ. Attempts and backoff are left to the producer, so that its configuration also holds for calls
 * that already wait. A failed call never leaves by itself.
 */
export const JOB_OPTIONS = { attempts: 1_000_000, removeOnFail: false } as const satisfies JobsOptions;

/**
 * How many processes ended with a call in hand, until it is taken alone, and until it fails. BullMQ counts in the job, as `stc`, how
 * often the call was taken back; a worker that goes on after that takes its count away (hold.ts).
 */
export const CRASHES = { untilAlone: 2, untilFailed: 3 } as const;
