import { type ProblemText, textOf } from "../../shared/call/results/result.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { CODES, type DeliveryCode, type ErrorCode } from "../../shared/platform/errors/codes.ts";
import { type Backoff, backoffMs } from "../../shared/platform/time/backoff.ts";
import type { Verdict } from "./consumer/finish.ts";

/*
 * Decides what happens to a call after a failed attempt, by the error's code. docs/errors.md has the same table for
 * operators.
 *
 * The wait before the next attempt is random, from 0 to a maximum. By default (20 attempts, base 1 s, cap 15 min):
 *
 *   after attempt   1    2    3    4   ...   10      11 to 19
 *   at most         1 s  2 s  4 s  8 s       512 s   900 s
 *
 * All waits together take at most 2 h 32 min, and 1 h 16 min on average.
 *
 * After the last attempt the call is failed, until an operator replays or discards it.
 */

/** Functions that compute the wait before the next attempt. Retry-After can make the wait longer. */
const WAITS = {
  backoff: backoffMs,
  /**
   * Waits as after a first failure, however many attempts there were, because the cause is the unreachable runner and not the
   * call.
   */
  first: (backoff, _, random) => backoffMs(backoff, 1, random),
  none: () => 0,
} satisfies Record<string, typeof backoffMs>;

/** Consequences of a failed attempt. */
export type Outcome = {
  /** `retry`: the attempt counts, and after the last one the call fails. `delay`: the attempt does not count. */
  readonly next: "retry" | "delay" | "fail";
  /**
   * Says whether the job ran. `yes`: the job ran and only the answer is missing, so after its last attempt the call counts as
   * injected.
   */
  readonly effect: "no" | "maybe" | "yes";
  /**
   * State of the runner, or of the receiver of a callback, as far as the attempt shows it. `unreachable`: no connection was
   * made. `silent`: a connection was made, but no answer came. For a receiver, `silent` covers both.
   */
  readonly peer: "unreachable" | "silent" | "answered" | "unknown";
  /**
   * Says whether the job pauses after several consecutive calls with this error (throttle.ts). `asked`: only if the answer
   * has Retry-After. `no`: never, and the count of consecutive calls starts again at 0. `skip`: never, and the count stays as
   * it is.
   */
  readonly pauses: "yes" | "asked" | "no" | "skip";
  readonly wait: keyof typeof WAITS;
};

/**
 * Allows only a `next` that agrees with `retryable` of the same code in CODES. The exception is `record.unreadable`: a client
 * may retry its request, but a call fails, because only an operator can repair the record.
 */
type NextOf<Code extends DeliveryCode> = Code extends "record.unreadable"
  ? "fail"
  : { true: "retry" | "delay"; false: "fail" }[`${(typeof CODES)[Code]["retryable"]}`];

export const OUTCOMES: { readonly [Code in DeliveryCode]: Outcome & { next: NextOf<Code> } } = {
  "queue.unavailable": { next: "retry", effect: "maybe", peer: "unknown", pauses: "asked", wait: "backoff" },
  "record.unreadable": { next: "fail", effect: "no", peer: "unknown", pauses: "no", wait: "none" },
  "internal.unexpected": { next: "retry", effect: "maybe", peer: "unknown", pauses: "skip", wait: "backoff" },
  "runner.unreachable": { next: "delay", effect: "no", peer: "unreachable", pauses: "skip", wait: "first" },
  "runner.disconnected": { next: "retry", effect: "maybe", peer: "silent", pauses: "skip", wait: "backoff" },
  "runner.timed_out": { next: "retry", effect: "maybe", peer: "silent", pauses: "skip", wait: "backoff" },
  "runner.answer_broken": { next: "retry", effect: "yes", peer: "answered", pauses: "no", wait: "backoff" },
  "runner.failed": { next: "retry", effect: "maybe", peer: "answered", pauses: "asked", wait: "backoff" },
  "runner.throttled": { next: "delay", effect: "no", peer: "answered", pauses: "yes", wait: "backoff" },
  // The runner already works on this call. This says nothing about the job's other calls, so it does not count toward a pause
  // of the job.
  "runner.busy": { next: "delay", effect: "maybe", peer: "answered", pauses: "skip", wait: "backoff" },
  "runner.refused": { next: "fail", effect: "no", peer: "answered", pauses: "no", wait: "none" },
  "call.poison_pill": { next: "fail", effect: "no", peer: "unknown", pauses: "no", wait: "none" },
  "call.corrupt": { next: "fail", effect: "no", peer: "unknown", pauses: "no", wait: "none" },
  "callback.unanswered": { next: "retry", effect: "maybe", peer: "silent", pauses: "skip", wait: "backoff" },
  "callback.failed": { next: "retry", effect: "maybe", peer: "answered", pauses: "asked", wait: "backoff" },
  "callback.gone": { next: "fail", effect: "maybe", peer: "answered", pauses: "no", wait: "none" },
  "callback.address_forbidden": { next: "fail", effect: "no", peer: "unknown", pauses: "no", wait: "none" },
};

/** Error code of a runner's answer that is not 2xx, by its status. A row may override the outcome of its code. */
const ANSWERS: Readonly<Record<string, { readonly code: DeliveryCode } & Partial<Outcome>>> = {
  "408": { code: "runner.failed" },
  "409": { code: "runner.failed" },
  "409 with Retry-After": { code: "runner.busy" },
  "425": { code: "runner.failed" },
  "429": { code: "runner.throttled" },
  "other 4xx": { code: "runner.refused" },
};
/** Code for any other status: 3xx, 5xx. */
const OTHER_ANSWER = { code: "runner.failed" } as const;

export function answerOf(status: number, hasRetryAfter: boolean): (typeof ANSWERS)[string] {
  const withRetryAfter = hasRetryAfter ? ANSWERS[`${status} with Retry-After`] : undefined;
  const other = status >= 400 && status < 500 ? ANSWERS["other 4xx"] : undefined;
  return withRetryAfter ?? ANSWERS[status] ?? other ?? OTHER_ANSWER;
}

type FailureOptions = ConstructorParameters<typeof AppError>[1] & {
  problem?: ProblemText | undefined;
  /** HTTP status of the answer. */
  status?: number;
  outcome?: Partial<Outcome>;
};

/**
 * An answer by which a runner did not accept the call. If the call then fails, a client that asks for its result gets
 * `problem`, the runner's description of the reason.
 */
export class RunnerFailure extends AppError {
  readonly problem: ProblemText | undefined;
  readonly status: number | undefined;
  /** Overrides the outcome of the code. */
  readonly outcome: Partial<Outcome>;

  constructor(code: DeliveryCode, { problem, status, outcome = {}, ...details }: FailureOptions) {
    super(code, details);
    this.status = status;
    this.problem = problem && textOf(problem);
    this.outcome = outcome;
  }
}

/**
 * For your own `inject`: the runner will never accept this call, so it fails at once. Clients that ask for the result get
 * `problem`.
 */
export class Refused extends RunnerFailure {
  constructor(reason: string, options?: { cause?: unknown; problem?: ProblemText }) {
    super("runner.refused", { reason, ...options });
  }
}

/** For your own `inject`: the runner will accept this call later. The attempt does not count. */
export class NotNow extends RunnerFailure {
  constructor(reason: string, retryAfterMs: number) {
    super("runner.busy", { reason, retryAfterMs, outcome: { effect: "no" } });
  }
}

/**
 * Finds the consequences of an error. A program's own `inject` may throw codes that are not in OUTCOMES. For these, CODES
 * says whether to retry, and the rest is as for `queue.unavailable`.
 */
export function outcomeOf(error: AppError): Outcome {
  const { code } = error;
  const rows: Partial<Record<ErrorCode, Outcome>> = OUTCOMES;
  const next = CODES[code].retryable ? "retry" : "fail";
  const outcome = rows[code] ?? { ...OUTCOMES["queue.unavailable"], next };
  return error instanceof RunnerFailure ? { ...outcome, ...error.outcome } : outcome;
}

/** Longest Retry-After that is obeyed. */
const RETRY_AFTER_MS_MAX = 3_600_000;

/** Settings of one job that replace the defaults. */
export type JobRetries = { attempts?: number | undefined; backoff?: Backoff | undefined };

/** @internal */
export type RetryPolicy = {
  /** Decides about a call of this job whose `attempt`-th attempt ended with this error. */
  judge(error: AppError, attempt: number, job: string): Verdict;
};

/** @internal */
export function createRetryPolicy({
  jobs,
  random,
  ...defaults
}: {
  attempts: number;
  backoff: Backoff;
  /** Settings by job key, only for jobs that differ from the defaults. */
  jobs: ReadonlyMap<string, JobRetries>;
  random: () => number;
}): RetryPolicy {
  return {
    judge(error, attempt, job) {
      const { next, wait } = outcomeOf(error);
      const reason = `${error.code}: ${error.message}`;
      const own = jobs.get(job);
      const attempts = own?.attempts ?? defaults.attempts;
      if (next === "fail" || (next === "retry" && attempt >= attempts)) return { kind: "fail", reason };
      const asked = Math.min(error.retryAfterMs ?? 0, RETRY_AFTER_MS_MAX);
      const afterMs = Math.max(asked, WAITS[wait](own?.backoff ?? defaults.backoff, attempt, random));
      return next === "delay" ? { kind: "postpone", afterMs } : { kind: "retry", afterMs, reason };
    },
  };
}
