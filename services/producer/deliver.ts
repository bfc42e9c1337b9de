import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { type JobCall, parseJobCall } from "../../shared/job-call/job-call.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { CallRecords } from "../../shared/queue/call-record.ts";
import type { Deliver, Hold, Taken, Verdict } from "../../shared/queue/consume.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { RetryPolicy, Throttle } from "./retry-policy.ts";

/** What the runner gets: the stored call, checked, and the bytes of its body. */
export type DeliveredCall = { readonly call: JobCall; readonly body: Buffer };

/**
 * Hands a call to a runner. Resolves when the runner owns the call; must tolerate the same `call.id` again. The code of a
 * thrown AppError decides what happens to the call. Retryable codes are tried again after `retryAfterMs` or the backoff,
 * whichever is longer; `runner.throttled` and `runner.busy` only delay the call; every other code fails it. Any other error
 * is tried again. `hold` may be lost meanwhile, and `hold.signal` is then aborted: another worker may have the call, so stop
 * if possible.
 */
export type Inject = (delivered: DeliveredCall, hold: Hold) => Promise<void>;

/** For your own `inject`: the runner will never take this call, so it fails at once. */
export class Refused extends AppError {
  constructor(reason: string, options?: { cause?: unknown }) {
    super("runner.refused", { reason, ...options });
  }
}

/** For your own `inject`: the runner will take this call later. The attempt does not count. */
export class NotNow extends AppError {
  constructor(reason: string, retryAfterMs: number) {
    super("runner.busy", { reason, retryAfterMs });
  }
}

/** How long a call waits if its record could not be written. */
const RECORD_PAUSE_MS = 1000;

type DeliverDeps = {
  inject: Inject;
  /** Calls injected at once. */
  concurrency: number;
  records: CallRecords;
  policy: RetryPolicy;
  throttle: Throttle;
  clock: Clock;
  log: Logger;
  workerId: string;
};

/** Brings one call from the queue to the runner. Every outcome is one verdict, one change of the record and one event. */
export function createDeliver(deps: DeliverDeps): Deliver {
  const { inject, records, clock, log } = deps;
  const withinLimit = createSemaphore(deps.concurrency);
  const { injected, failed } = createOutcomes(deps);

  /** Throws only if the record cannot be read or written; what the runner did is in the verdict. */
  async function attempt(taken: Taken, hold: Hold): Promise<Verdict> {
    const parsed = parsedOrError(taken.stored);
    if (parsed instanceof AppError) return failed(taken, parsed, 0);
    const { call } = parsed;
    const known = await records.taken(call.id, clock());
    if (known === "INJECTED" || known === "DISCARDED") return ended(call, known);
    failpoint("producer.after_take");
    const injection = await withinLimit(() => injectWhileHeld(parsed, hold));
    if (injection === "not held") return givenBack(taken);
    const { error, injectMs } = injection;
    if (error !== undefined) return failed(taken, error, injectMs);
    failpoint("producer.after_post");
    return injected(taken, call, injectMs);
  }

  async function injectWhileHeld(parsed: DeliveredCall, hold: Hold): Promise<Injection | "not held"> {
    if (hold.lost) return "not held";
    failpoint("producer.before_post");
    const startedAt = clock();
    const error = await inject(parsed, hold).then(() => undefined, toAppError);
    if (error !== undefined && hold.lost) return "not held";
    return { error, injectMs: clock() - startedAt };
  }

  /** The call was added again after its end. The record says so, and the runner is not asked. */
  function ended(call: JobCall, state: string): Verdict {
    log.info("call.known", { callId: call.id, origin: call.origin, state });
    return { kind: "done" };
  }

  /** This worker stops, or has lost the call. That is not the runner's fault, so the attempt does not count. */
  function givenBack({ id, origin }: Taken): Verdict {
    log.warn("call.given_back", { callId: id, origin });
    return { kind: "postpone", untilMs: clock() };
  }

  /**
   * The outcome could not be recorded. That is not the runner's fault, so the attempt does not count. If the runner already
   * has the call, it recognises it the next time by its key.
   */
  function notRecorded({ id, origin }: Taken, cause: unknown): Verdict {
    log.error("call.record_failed", { callId: id, origin, reason: messageOf(cause) });
    return { kind: "postpone", untilMs: clock() + RECORD_PAUSE_MS };
  }

  return async function deliver(taken, hold) {
    try {
      return await attempt(taken, hold);
    } catch (cause) {
      return notRecorded(taken, cause);
    }
  };
}

type Injection = { error: AppError | undefined; injectMs: number };

function parsedOrError(stored: unknown): DeliveredCall | AppError {
  try {
    return parseJobCall(stored);
  } catch (error) {
    return toAppError(error);
  }
}

/** What follows from the runner's decision: the record, the event and the verdict. */
function createOutcomes({ records, policy, throttle, clock, log, workerId }: DeliverDeps) {
  async function injected(taken: Taken, call: JobCall, injectMs: number): Promise<Verdict> {
    const now = clock();
    throttle.succeeded();
    await records.injected(call, now);
    failpoint("producer.after_injected");
    log.info("call.injected", {
      callId: call.id,
      origin: call.origin,
      jobId: call.job_id,
      attempt: taken.attempt,
      injectMs,
      endToEndMs: now - call.accepted_at,
      ...(call.traceparent !== undefined && { traceparent: call.traceparent }),
    });
    return { kind: "done" };
  }

  async function failed(taken: Taken, error: AppError, injectMs: number): Promise<Verdict> {
    const now = clock();
    const verdict = policy.judge(error, taken.attempt, now);
    throttle.failed(taken.id, error);
    await recordFailure(taken, error, verdict, now);
    const { id: callId, origin, attempt } = taken;
    const fields = { callId, origin, attempt, code: error.code, reason: error.message, injectMs };
    if (verdict.kind === "fail") log.error("call.failed", fields);
    else {
      const spent = verdict.kind === "retry";
      log.warn("call.delayed", { ...fields, spent, waitMs: waitMs(verdict, now) });
    }
    return verdict;
  }

  async function recordFailure(taken: Taken, error: AppError, verdict: Verdict, now: number): Promise<void> {
    const attempt = { at: now, code: error.code, reason: error.message, worker: workerId };
    await records.attemptFailed(taken, attempt, taken.queuedAt);
    failpoint("producer.after_attempt_recorded");
    if (verdict.kind !== "fail") return;
    await records.failed(taken, now);
    failpoint("producer.after_failed");
  }

  return { injected, failed };
}

function waitMs(verdict: Verdict, now: number): number {
  if (verdict.kind === "retry") return verdict.afterMs;
  return verdict.kind === "postpone" ? verdict.untilMs - now : 0;
}

/** Lets at most `count` callers work at once. The others wait for their turn, in order. */
function createSemaphore(count: number) {
  let free = count;
  const waiting: (() => void)[] = [];

  return async function withinLimit<Result>(work: () => Promise<Result>): Promise<Result> {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}
