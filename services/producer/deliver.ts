import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { type JobCall, parseJobCall } from "../../shared/job-call/job-call.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { CallRecords } from "../../shared/queue/call-record.ts";
import type { Deliver, Hold, Taken, Verdict } from "../../shared/queue/consume.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { RetryPolicy, Throttle } from "./retry-policy.ts";

const RECORD_PAUSE_MS = 1000;

type DeliverDeps = {
  inject: Inject;
  /** Those of all calls that are injected at once. */
  slots: ConcurrencyLimit;
  records: CallRecords;
  policy: RetryPolicy;
  throttle: Throttle;
  clock: Clock;
  log: Logger;
  workerId: string;
};

/** The way of one call from the queue to the runner; every end of it is one verdict, one record and one event. */
export function createDeliver(deps: DeliverDeps): Deliver {
  return async function deliver(taken, hold) {
    try {
      return await bring(deps, taken, hold);
    } catch (cause) {
      return notRecorded(deps, taken, cause);
    }
  };
}

/** What it throws is trouble of ours, with Redis most likely; what the runner does is in the verdict. */
async function bring(deps: DeliverDeps, taken: Taken, hold: Hold): Promise<Verdict> {
  const parsed = parsedOrError(taken.stored);
  if (parsed instanceof AppError) return failed(deps, { taken, error: parsed, injectMs: 0 });
  const { call } = parsed;
  const known = await deps.records.taken(call.id, deps.clock());
  if (known === "INJECTED" || known === "DISCARDED") return ended(deps, call, known);
  failpoint("producer.after_take");
  const injection = await deps.slots(() => inject(deps, parsed, hold));
  if (injection === "not held") return givenBack(deps, taken);
  const { error, injectMs } = injection;
  if (error !== undefined) return failed(deps, { taken, error, injectMs });
  failpoint("producer.after_post");
  return injected(deps, { call, taken, injectMs });
}

type Injection = { error: AppError | undefined; injectMs: number };

async function inject(deps: DeliverDeps, parsed: DeliveredCall, hold: Hold): Promise<Injection | "not held"> {
  if (hold.lost) return "not held";
  failpoint("producer.before_post");
  const startedAt = deps.clock();
  const error = await deps.inject(parsed, hold).then(() => undefined, toAppError);
  if (error !== undefined && hold.lost) return "not held";
  return { error, injectMs: deps.clock() - startedAt };
}

function parsedOrError(stored: unknown): ReturnType<typeof parseJobCall> | AppError {
  try {
    return parseJobCall(stored);
  } catch (error) {
    return toAppError(error);
  }
}

/**
 * What came of the call could not be recorded. That is no fault of the runner, so no attempt is spent; offered again,
 * the call is answered from the runner's memory.
 */
function notRecorded({ log, clock }: DeliverDeps, { id, origin }: Taken, cause: unknown): Verdict {
  log.error("call.record_failed", { callId: id, origin, reason: messageOf(cause) });
  return { kind: "postpone", untilMs: clock() + RECORD_PAUSE_MS };
}

/** Something added it again after its end: the record remembers, the runner is not asked. */
function ended({ log }: DeliverDeps, call: JobCall, state: string): Verdict {
  log.info("call.known", { callId: call.id, origin: call.origin, state });
  return { kind: "done" };
}

/** Cut short by this worker's stop, or taken from it: no fault of the runner, so no attempt is spent. */
function givenBack({ log, clock }: DeliverDeps, { id, origin }: Taken): Verdict {
  log.warn("call.given_back", { callId: id, origin });
  return { kind: "postpone", untilMs: clock() };
}

type InHand = { call: JobCall; taken: Taken; injectMs: number };

async function injected(deps: DeliverDeps, { call, taken, injectMs }: InHand): Promise<Verdict> {
  const now = deps.clock();
  deps.throttle.succeeded();
  await deps.records.injected(call, now);
  failpoint("producer.after_injected");
  deps.log.info("call.injected", {
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

type Failure = { taken: Taken; error: AppError; injectMs: number };

async function failed(deps: DeliverDeps, { taken, error, injectMs }: Failure): Promise<Verdict> {
  const now = deps.clock();
  const verdict = deps.policy.judge(error, taken.attempt, now);
  deps.throttle.failed(taken.id, error);
  await remember(deps, { taken, error, verdict, now });
  const { id: callId, origin, attempt } = taken;
  const fields = { callId, origin, attempt, code: error.code, reason: error.message, injectMs };
  if (verdict.kind === "fail") deps.log.error("call.failed", fields);
  else
    deps.log.warn("call.delayed", {
      ...fields,
      spent: verdict.kind === "retry",
      waitMs: waitMs(verdict, now),
    });
  return verdict;
}

type Outcome = { taken: Taken; error: AppError; verdict: Verdict; now: number };

async function remember({ records, workerId }: DeliverDeps, outcome: Outcome): Promise<void> {
  const { taken, error, verdict, now } = outcome;
  const attempt = { at: now, code: error.code, reason: error.message, worker: workerId };
  await records.attemptFailed(taken, attempt, taken.queuedAt);
  failpoint("producer.after_attempt_recorded");
  if (verdict.kind !== "fail") return;
  await records.failed(taken, now);
  failpoint("producer.after_failed");
}

function waitMs(verdict: Verdict, now: number): number {
  if (verdict.kind === "retry") return verdict.afterMs;
  return verdict.kind === "postpone" ? verdict.untilMs - now : 0;
}

/** A call as the runner is to get it: the stored call, checked, and the bytes of its body. */
export type DeliveredCall = { readonly call: JobCall; readonly body: Buffer };

/**
 * Hands a call to a runner. Resolves when the runner owns it; must tolerate seeing the same `call.id` again. A thrown
 * AppError decides by its code: retryable ones are tried again after `retryAfterMs` or the backoff, whichever is longer,
 * others fail the call; `runner.throttled` and `runner.busy` only delay it. Anything else thrown is tried again.
 * `hold` can be lost before that, and `hold.signal` is aborted then: the call is another worker's, so stop if possible.
 */
export type Inject = (delivered: DeliveredCall, hold: Hold) => Promise<void>;

/** For an `inject` of one's own: this call will never be taken, so it fails at once. */
export class Refused extends AppError {
  constructor(reason: string, options?: { cause?: unknown }) {
    super("runner.refused", { reason, ...options });
  }
}

/** For an `inject` of one's own: not now, but later; no attempt is spent. */
export class NotNow extends AppError {
  constructor(reason: string, retryAfterMs: number) {
    super("runner.busy", { reason, retryAfterMs });
  }
}

/** Lets at most `count` callers do something at once; the others wait for their turn, in order. */
export function createConcurrencyLimit(count: number) {
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

type ConcurrencyLimit = ReturnType<typeof createConcurrencyLimit>;
