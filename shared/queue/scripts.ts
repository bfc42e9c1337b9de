import { JOB_ORIGINS } from "../job-call/origin.ts";
import { BATCH_BYTES_MAX } from "../redis/batches.ts";
import { AWAITED_KEEP_MS, PREPARED_FIELD } from "./callbacks.ts";
import { CRASHES, JOB_NAME, JOB_OPTIONS } from "./protocol.ts";
import { CALLBACKS_GATE } from "./queue-name.ts";

/*
 * Lua around each of BullMQ's scripts, so that BullMQ's change of a queue and what producers are told of it are one step.
 * Three keys of a partition tell them:
 *
 *   wake    queues with calls that may be taken now. Each producer blocks on it, and takes names out.
 *   due     queues to be looked at again, by the time: a delay, a throttle or the period of a rate ends then. Whoever polls moves
 *           those whose time has come to `wake`.
 *   active  queues with calls in hand.
 *
 * A name too many costs one fetch that finds nothing. A name too few lets a call wait for the next look through the registry
 * (poll.ts), so a name leaves `wake` only where a fetch has just found that nothing can be taken. An add tells producers only if
 * no call waited in the queue before: else the queue is in `wake` or `due` already, or a producer has just taken its name out and
 * tells of it when it fetches. A take at another call's end tells nobody, for the same reason.
 *
 * The gate of a job says whether its calls may be taken. It is a hash with paused, throttled (until, unix ms of Redis), concurrency,
 * max and duration (ms), and holds for all queues of the job together, whatever their origin. BullMQ's own pause, concurrency
 * and rate hold for one queue, and write no marker when they end.
 *
 * Callbacks go through the gate of their receiver instead, `callback/<receiver>`, which holds for its queues of all jobs. What it does
 * not say itself the gate `callback` says, for each receiver.
 */

/** Begins the answer for an item of a batch that has failed alone. */
const FAILED_ALONE = "ERROR: ";

/** The answer of a worker's step if the runner has taken a call whose refund was exported meanwhile. */
export const AFTER_REFUND = "AFTER_REFUND";

/** Constants of the Lua around BullMQ's, for each script that includes it. */
export const QUEUE_CONSTANTS = {
  ...{ CALLBACKS_GATE, JOB_ORIGINS: JOB_ORIGINS.join(" "), JOB_NAME, JOB_OPTIONS, PREPARED_FIELD },
  ...{ AWAITED_KEEP_MS, CRASHES, BATCH_BYTES_MAX, FAILED_ALONE, AFTER_REFUND },
  /** When a worker that may not take calls alone looks again. */
  ALONE_AGAIN_MS: 1000,
};

/** The answer for one item of a batch. Throws if it has failed alone. */
export function answerOf<Answer>(answer: Answer): Answer {
  if (typeof answer !== "string" || !answer.startsWith(FAILED_ALONE)) return answer;
  throw new Error(answer.slice(FAILED_ALONE.length));
}
