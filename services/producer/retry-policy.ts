import type { AppError } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";
import type { Verdict } from "../../shared/queue/finish.ts";
import { type Backoff, backoffMs } from "../../shared/time/backoff.ts";

/*
 * What happens to a call after a failed attempt, by its error's code. Which status of a runner becomes which code is in
 * http-runner.ts.
 *
 * With the defaults (20 attempts, base 1 s, cap 15 min) and full jitter, each wait is between 0 and
 *
 *   after attempt   1    2    3    4   ...   10      11 to 19
 *   at most         1 s  2 s  4 s  8 s       512 s   900 s      in all at most 2 h 32 min, half of that on average
 *
 * After that the call is failed, until an operator replays or discards it.
 */

/** A runner cannot put off a call for longer than this at a time. */
const RETRY_AFTER_MS_MAX = 3_600_000;

/** The codes of exchange.ts: with any other, the runner gave an answer. */
export const NO_ANSWER: readonly ErrorCode[] = [
  "runner.unreachable",
  "runner.disconnected",
  "runner.timed_out",
  "callback.unanswered",
  "internal.unexpected",
];

/** These codes only delay the call: the runner works, and will take it later. */
const POSTPONES: readonly string[] = ["runner.throttled", "runner.busy"];

/** What a job has instead of the defaults. */
export type JobRetries = { attempts?: number | undefined; backoff?: Backoff | undefined };

export type RetryPolicy = {
  /** Decides about a call of this job whose `attempt`-th attempt ended with this error. */
  judge(error: AppError, attempt: number, job: string): Verdict;
};

export function createRetryPolicy({
  jobs,
  random,
  ...defaults
}: {
  attempts: number;
  backoff: Backoff;
  /** By job key; only the jobs that differ. */
  jobs: ReadonlyMap<string, JobRetries>;
  random: () => number;
}): RetryPolicy {
  return {
    judge(error, attempt, job) {
      const reason = `${error.code}: ${error.message}`;
      if (!error.retryable) return { kind: "fail", reason };
      const own = jobs.get(job);
      const { attempts, backoff } = {
        attempts: own?.attempts ?? defaults.attempts,
        backoff: own?.backoff ?? defaults.backoff,
      };
      if (error.code === "runner.unreachable") {
        // The call is not at fault, so the wait is that of a first failure, however many attempts it has behind it.
        return { kind: "postpone", afterMs: backoffMs(backoff, 1, random) };
      }
      const asked = Math.min(error.retryAfterMs ?? 0, RETRY_AFTER_MS_MAX);
      const afterMs = Math.max(asked, backoffMs(backoff, attempt, random));
      if (POSTPONES.includes(error.code)) return { kind: "postpone", afterMs };
      if (attempt >= attempts) return { kind: "fail", reason };
      return { kind: "retry", afterMs, reason };
    },
  };
}
