import { AppError, messageOf } from "../errors/app-error.ts";
import type { DurableRedis } from "../redis/durable-redis.ts";
import { type Clock, delay } from "../time/clock.ts";

/** Redis refused these before it wrote anything, so their outcome is known: nothing happened. */
const REFUSED_UNWRITTEN = /^(OOM|MISCONF|READONLY|NOREPLICAS|LOADING|NOPERM|NOAUTH|MASTERDOWN|CLUSTERDOWN)\b/;
/** ioredis never sent these. */
const NEVER_SENT = /enableOfflineQueue|isn't writeable|Connection is closed/;

type Options = { redis: DurableRedis; clock: Clock; deadlineMs: number };

/**
 * Repeats an idempotent write until its outcome is known or the deadline has passed. A rejection does not mean that
 * nothing was written: the reply may be what was lost. Throws `queue.outcome_unknown` when an earlier try may have been
 * written, else what keeps calls from being taken (`queue.unavailable`, `queue.not_durable`).
 */
export function createUntilKnown({ redis, clock, deadlineMs }: Options) {
  return async function untilKnown<Result>(write: () => Promise<Result>): Promise<Result> {
    const deadline = clock() + deadlineMs;
    let maybeWritten: unknown;
    for (let attempt = 0; ; attempt++) {
      try {
        return await within(deadline - clock(), redis.write(write));
      } catch (error) {
        const known = nothingWritten(error);
        if (!known) maybeWritten = error;
        const pause = Math.min(25 * 2 ** attempt, 400);
        if (clock() + pause >= deadline) throw toOutcome(error, maybeWritten);
        await delay(pause);
      }
    }
  };
}

function nothingWritten(error: unknown): boolean {
  if (error instanceof AppError) return true;
  const message = messageOf(error);
  return REFUSED_UNWRITTEN.test(message) || NEVER_SENT.test(message);
}

function toOutcome(error: unknown, maybeWritten: unknown): AppError {
  if (maybeWritten !== undefined) {
    return new AppError("queue.outcome_unknown", {
      reason: messageOf(maybeWritten),
      retryAfterMs: 2000,
      cause: maybeWritten,
    });
  }
  if (error instanceof AppError) return error;
  return new AppError("queue.unavailable", { reason: messageOf(error), retryAfterMs: 2000, cause: error });
}

/** Rejects when `work` takes longer; the work itself goes on, its outcome unknown. */
async function within<Result>(ms: number, work: Promise<Result>): Promise<Result> {
  const timer = new AbortController();
  const late = delay(Math.max(ms, 0), timer.signal).then(() => {
    throw new Error(`Redis did not answer within the deadline`);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    late.catch(() => {});
    work.catch(() => {});
    timer.abort();
  }
}
