import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { type CallHead, jobKeyOf, parseJobCall } from "../../shared/job-call/job-call.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { CallRecords } from "../../shared/queue/call-record.ts";
import type { Deliver, Taken } from "../../shared/queue/consume.ts";
import { headOf } from "../../shared/queue/failed-head.ts";
import type { Verdict } from "../../shared/queue/finish.ts";
import type { Hold } from "../../shared/queue/hold.ts";
import { CRASHES } from "../../shared/queue/protocol.ts";
import { VERSIONS } from "../../shared/redis/version.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { RetryPolicy } from "./retry-policy.ts";
import type { Throttle } from "./throttle.ts";

/** What the runner gets: the stored call, checked, and the bytes of its body. */
export type DeliveredCall = { readonly call: CallHead; readonly body: Buffer };

/**
 * Hands a call to a runner. Resolves when the runner owns the call; must tolerate the same `call.id` again. The code of a
 * thrown AppError decides what happens to the call. Retryable codes are tried again after `retryAfterMs` or the backoff,
 * whichever is longer; `runner.throttled`, `runner.busy` and `runner.unreachable` only delay the call; every other code fails
 * it. Any other error is tried again. `hold` may be lost meanwhile, and `hold.signal` is then aborted: another worker may have
 * the call, so stop if possible.
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
  /** Whether the runner of a job is away. */
  isAway: (job: string) => boolean;
  records: CallRecords;
  policy: RetryPolicy;
  throttle: Throttle;
  clock: Clock;
  log: Logger;
  workerId: string;
};

/** Brings one call from the queue to the runner. Every outcome is one verdict, one change of the record and one event. */
export function createDeliver(deps: DeliverDeps): Deliver {
  const { inject, clock, log } = deps;
  const { injected, failed, putOff } = createOutcomes(deps);

  /** Throws only if a failure cannot be recorded; what the runner did is in the verdict. */
  async function attempt(taken: Taken, hold: Hold): Promise<Verdict> {
    const parsed = parsedOrError(taken);
    if (parsed instanceof AppError) {
      if (parsed.code === "call.newer") return putOff(taken, parsed);
      return failed(taken, undefined, { error: parsed, injectMs: 0 });
    }
    const { call } = parsed;
    if (taken.record === "INJECTED" || taken.record === "DISCARDED") return ended(call, taken.record);
    failpoint("producer.after_take");
    const injection = await injectWhileHeld(parsed, hold);
    if (injection === "not held") return givenBack(call);
    const { error, injectMs } = injection;
    if (error?.code === "runner.unreachable") return unreachable(taken, call, error);
    if (error !== undefined) return failed(taken, call, { error, injectMs });
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
  function ended(call: CallHead, state: string): Verdict {
    log.info("call.known", { ...fieldsOf(call), state });
    return { kind: "ended" };
  }

  /**
   * Nothing of the call has left, and it is not at fault, so the attempt does not count. If the runner is away, the calls that
   * wait are not taken until it is back, and this one goes back to them.
   */
  function unreachable({ attempt }: Taken, call: CallHead, error: AppError): Verdict {
    const job = jobKeyOf(call);
    return deps.isAway(job) ? { kind: "requeue" } : deps.policy.judge(error, attempt, clock(), job);
  }

  /** This worker stops, or has lost the call. That is not the runner's fault, so the attempt does not count. */
  function givenBack(call: CallHead): Verdict {
    log.warn("call.given_back", fieldsOf(call));
    return { kind: "requeue" };
  }

  /** The failure could not be recorded. The attempt does not count, so that none is missing among those that do. */
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

function parsedOrError({ takeStored, record, crashes }: Taken): DeliveredCall | AppError {
  if (crashes >= CRASHES.untilFailed) {
    const reason = `${crashes} producers ended with it in hand, the last one with no other call`;
    return new AppError("call.poison_pill", { reason });
  }
  if (record === "NEWER") return new AppError("call.newer", { reason: "its record is of a later release" });
  try {
    return parseJobCall(takeStored());
  } catch (error) {
    return toAppError(error);
  }
}

/** What follows from the runner's decision: the record, the event and the verdict. */
function createOutcomes({ records, policy, throttle, clock, log, workerId }: DeliverDeps) {
  function injected({ attempt }: Taken, call: CallHead, injectMs: number): Verdict {
    throttle.succeeded(jobKeyOf(call));
    const onRecorded = () => {
      log.info("call.injected", {
        ...fieldsOf(call),
        ...{ attempt, injectMs, endToEndMs: clock() - call.accepted_at },
        ...(call.traceparent !== undefined && { traceparent: call.traceparent }),
      });
    };
    return { kind: "injected", onRecorded };
  }

  /** `call` is undefined if what is stored is none. */
  async function failed(
    taken: Taken,
    call: CallHead | undefined,
    { error, injectMs }: { error: AppError; injectMs: number },
  ): Promise<Verdict> {
    const now = clock();
    const job = call && jobKeyOf(call);
    const verdict = policy.judge(error, taken.attempt, now, job);
    if (job !== undefined) throttle.failed(job, taken.id, error);
    await recordFailure(taken, error, verdict, now);
    const { id: callId, origin, attempt } = taken;
    const { code, message: reason } = error;
    const fields = { callId, origin, ...(call && fieldsOf(call)), attempt, code, reason, injectMs };
    if (verdict.kind === "fail") {
      log.error("call.failed", fields);
      return call === undefined ? verdict : { ...verdict, head: headOf(call) };
    }
    const spent = verdict.kind === "retry";
    log.warn("call.delayed", { ...fields, spent, waitMs: waitMs(verdict, now) });
    return verdict;
  }

  /** A newer release has added the call. One of its producers will take it. */
  function putOff({ id, origin, attempt }: Taken, error: AppError): Verdict {
    log.info("call.newer", { callId: id, origin, reason: error.message });
    return policy.judge(error, attempt, clock(), undefined);
  }

  async function recordFailure(taken: Taken, error: AppError, verdict: Verdict, now: number): Promise<void> {
    const attempt = {
      v: VERSIONS.attempt,
      at: now,
      code: error.code,
      reason: error.message,
      worker: workerId,
    };
    await records.attemptFailed(taken, attempt, taken.queuedAt);
    failpoint("producer.after_attempt_recorded");
    if (verdict.kind !== "fail") return;
    await records.failed(taken, now);
    failpoint("producer.after_failed");
  }

  return { injected, failed, putOff };
}

/** Which call of which job, in every event. */
function fieldsOf({ id, origin, service_id, job_id }: CallHead) {
  return { callId: id, origin, serviceId: service_id, jobId: job_id };
}

function waitMs(verdict: Verdict, now: number): number {
  if (verdict.kind === "retry") return verdict.afterMs;
  return verdict.kind === "postpone" ? verdict.untilMs - now : 0;
}
