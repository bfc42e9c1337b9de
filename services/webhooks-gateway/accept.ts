import { randomBytes } from "node:crypto";
import { startCreation } from "../../shared/call/call-spans.ts";
import { type JobCall, storedBytes } from "../../shared/call/job-call.ts";
import { idsOfKey } from "../../shared/call/job-ids.ts";
import { AppError, RETRY_AFTER_MS } from "../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../shared/platform/lifecycle/failpoint.ts";
import { msSince } from "../../shared/platform/time/clock.ts";
import { inSpan } from "../../shared/platform/traces/tracer.ts";
import { queueOf } from "../../shared/queue/queue-name.ts";
import type { BeginWrite, Lane } from "../../shared/redis/retry-write.ts";
import type { Enqueue, Enqueued, Idempotency, UnpaidState } from "./enqueue.ts";

/**
 * Result that the 202 reports to the sender. If the sender repeats a delivery, the result has the state and the job of
 * the call that the first delivery queued.
 */
export type Accepted = {
  replayed: boolean;
  status: "accepted" | "failed" | "discarded";
  jobId: number;
  /** Time from sending the call to Redis until Redis has confirmed that it holds it, in ms with one decimal. */
  addMs: number;
};

type Deps = {
  enqueue: Enqueue;
  /**
   * Begins the write of one call of this size, and with it the deadline for the write (shared/redis/retry-write.ts).
   */
  beginWrite: BeginWrite;
};

/**
 * Values by which Redis recognises repeats of a call: the hash of its body, and the time for which its record is kept.
 */
export type Repeat = Omit<Idempotency, "by">;

type AcceptOptions = {
  /** Undefined for a call without a delivery id, whose repeats cannot be recognised. */
  repeat: Repeat | undefined;
  /** Path of the call's endpoint, if an operator holds that endpoint. */
  heldAt?: string | undefined;
};

export type Accept = (call: JobCall, options: AcceptOptions) => Promise<Accepted>;

/**
 * Creates the function that queues a call. It resolves once the call is on disk in Redis. If the call has a delivery
 * id, the same step stores a record of the call. If the sender repeats the delivery within the idempotency window, the
 * repeat finds this record and queues no second call. Throws `call.conflict` and the `queue.*` codes.
 */
export function createAccept({ enqueue, beginWrite }: Deps): Accept {
  return async function accept(call, { repeat, heldAt }) {
    const bytes = storedBytes(call);
    const idempotency = repeat && { ...repeat, by: newRequestId() };
    const span = startCreation("send", call, queueOf(call));
    const startedAt = performance.now();
    failpoint("gateway.before_add");
    try {
      const write = (lane: Lane) => enqueue(call, idempotency, lane, heldAt);
      const enqueued = await inSpan(span, () => beginWrite(bytes)(write, bytes));
      failpoint("gateway.after_add");
      return { ...toAccepted(call, enqueued), addMs: msSince(startedAt) };
    } catch (error) {
      throw withAdvice(error, repeat !== undefined);
    }
  };
}

/**
 * Returns a random id for one request. The record of a call stores the id of the request that created it. So a request
 * that retries its write is not mistaken for a repeat of the delivery by another request. The id is short, because each
 * record stores one.
 */
function newRequestId(): string {
  return randomBytes(6).toString("base64url");
}

function toAccepted({ id, job_id: jobId }: JobCall, enqueued: Enqueued): Omit<Accepted, "addMs"> {
  switch (enqueued.kind) {
    case "new":
      return { replayed: false, status: "accepted", jobId };
    case "known":
      return {
        replayed: true,
        status: STATUSES[enqueued.state],
        jobId: enqueued.job === undefined ? jobId : idsOfKey(enqueued.job).jobIndex,
      };
    case "conflict":
      throw new AppError("call.conflict", { reason: `${id} was queued with another body` });
  }
}

const STATUSES = {
  QUEUED: "accepted",
  INJECTED: "accepted",
  FAILED: "failed",
  DISCARDED: "discarded",
} as const satisfies Record<UnpaidState, Accepted["status"]>;

/**
 * Adds a text for the sender to the error `queue.outcome_unknown`. It says what happens if the sender sends the call
 * again.
 */
function withAdvice(error: unknown, hasDeliveryId: boolean): unknown {
  if (!(error instanceof AppError) || error.code !== "queue.outcome_unknown") return error;
  const { message: reason, retryAfterMs = RETRY_AFTER_MS } = error;
  const publicDetail = hasDeliveryId
    ? "It is unknown whether the call was queued. Send it again: under its delivery id it is the same call."
    : "It is unknown whether the call was queued. If you send it again, it may run twice, because it has no delivery id.";
  return new AppError("queue.outcome_unknown", { reason, publicDetail, retryAfterMs, cause: error });
}
