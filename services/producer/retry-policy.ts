import type { AppError } from "../../shared/errors/app-error.ts";
import type { Verdict } from "../../shared/queue/consume.ts";
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

/** These codes only delay the call: the runner works, and will take it later. */
const POSTPONES: readonly string[] = ["runner.throttled", "runner.busy"];

export type RetryPolicy = {
  /** Decides about a call whose `attempt`-th attempt ended with this error. */
  judge(error: AppError, attempt: number, now: number): Verdict;
};

export function createRetryPolicy(attempts: number, backoff: Backoff, random: () => number): RetryPolicy {
  return {
    judge(error, attempt, now) {
      const reason = `${error.code}: ${error.message}`;
      if (!error.retryable) return { kind: "fail", reason };
      const asked = Math.min(error.retryAfterMs ?? 0, RETRY_AFTER_MS_MAX);
      const afterMs = Math.max(asked, backoffMs(backoff, attempt, random));
      if (POSTPONES.includes(error.code)) return { kind: "postpone", untilMs: now + afterMs };
      if (attempt >= attempts) return { kind: "fail", reason };
      return { kind: "retry", afterMs, reason };
    },
  };
}

/** If so many different calls in a row get a 429, the runner as a whole is full. */
const CALLS_IN_A_ROW = 3;
const PAUSE_MS_DEFAULT = 1000;
const PAUSE_MS_MAX = 30_000;

export type Throttle = {
  succeeded(): void;
  failed(callId: string, error: AppError): void;
};

/**
 * A single 429 delays only its own call. If different calls in a row get one, the whole queue pauses (`pauseFor`) for as long
 * as the runner asked, and at most half a minute at a time.
 */
export function createThrottle(pauseFor: (ms: number) => Promise<void>): Throttle {
  const throttled = new Set<string>();
  let pausing = false;
  return {
    succeeded: () => throttled.clear(),
    failed(callId, error) {
      if (error.code !== "runner.throttled") return throttled.clear();
      throttled.add(callId);
      if (pausing || throttled.size < CALLS_IN_A_ROW) return;
      throttled.clear();
      pausing = true;
      void pauseFor(Math.min(error.retryAfterMs ?? PAUSE_MS_DEFAULT, PAUSE_MS_MAX)).finally(() => {
        pausing = false;
      });
    },
  };
}
