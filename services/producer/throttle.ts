import { type AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { outcomeOf } from "./retry-policy.ts";

/** A whole job pauses after its runner has postponed this many different calls of it in a row. */
const CALLS_IN_A_ROW = 3;
const PAUSE_MS_DEFAULT = 1000;
const PAUSE_MS_MAX = 30_000;

export type Throttle = {
  succeeded(job: string): void;
  failed(job: string, callId: string, error: AppError): void;
};

/** Pauses a job for all producers. */
export type ThrottleJob = (job: string, ms: number) => Promise<void>;

/**
 * Pauses jobs whose runner is overloaded. A 429, or another answer with Retry-After, delays only its own call. After several
 * such answers in a row, to different calls of a job, the whole job pauses. The pause is as long as the runner asked, but at
 * most half a minute. Other jobs continue. A job takes memory only while its last answer was such an answer.
 */
export function createThrottle({
  throttleJob,
  clock,
  log,
}: {
  throttleJob: ThrottleJob;
  clock: Clock;
  log: Logger;
}): Throttle {
  const throttled = new Map<string, { calls: Set<string>; pausedUntil: number }>();

  function pause(job: string, pauseMs: number): void {
    log.warn("job.throttled", { job, pauseMs });
    throttleJob(job, pauseMs).catch((cause: unknown) => {
      log.warn("job.throttle_failed", { job, reason: messageOf(cause) });
    });
  }

  return {
    succeeded: (job) => void throttled.delete(job),
    failed(job, callId, error) {
      const { pauses } = outcomeOf(error);
      if (pauses === "skip") return;
      const endsRow = pauses === "no" || (pauses === "asked" && error.retryAfterMs === undefined);
      if (endsRow) return void throttled.delete(job);
      const known = throttled.get(job) ?? { calls: new Set(), pausedUntil: 0 };
      throttled.set(job, known);
      // Calls that were in flight when the pause began get the same answer. They do not count toward the next pause.
      if (clock() < known.pausedUntil) return;
      known.calls.add(callId);
      if (known.calls.size < CALLS_IN_A_ROW) return;
      const pauseMs = Math.min(error.retryAfterMs ?? PAUSE_MS_DEFAULT, PAUSE_MS_MAX);
      known.calls.clear();
      known.pausedUntil = clock() + pauseMs;
      pause(job, pauseMs);
    },
  };
}
