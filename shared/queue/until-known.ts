import { AppError, messageOf } from "../errors/app-error.ts";
import type { DurableRedis } from "../redis/durable-redis.ts";
import { type Clock, delay } from "../time/clock.ts";

/** Redis refused these before it wrote anything, so their outcome is known: nothing happened. */
const REFUSED_UNWRITTEN = /^(OOM|MISCONF|READONLY|NOREPLICAS|LOADING|NOPERM|NOAUTH|MASTERDOWN|CLUSTERDOWN)\b/;
/** ioredis never sent these. */
const NEVER_SENT = /enableOfflineQueue|isn't writeable|Connection is closed/;

const LATE = "Redis did not answer within the deadline";

const PAUSE_MS_MAX = 400;

type Options = { redis: DurableRedis; clock: Clock; deadlineMs: number };

/**
 * Repeats an idempotent write until its outcome is known or the deadline has passed. A rejection does not mean that
 * nothing was written: the reply may be what was lost. Throws `queue.outcome_unknown` when an earlier try may have been
 * written, else what keeps calls from being taken (`queue.unavailable`, `queue.not_durable`).
 */
export function createUntilKnown(options: Options) {
  return <Result>(write: () => Promise<Result>): Promise<Result> => untilKnown(options, write);
}

async function untilKnown<Result>(options: Options, write: () => Promise<Result>): Promise<Result> {
  const { redis, clock } = options;
  const deadline = clock() + options.deadlineMs;
  let maybeWritten: unknown;
  for (let pauseMs = 25; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
    const outcome = await within(deadline - clock(), redis.write(write));
    if (outcome.ok) return outcome.result;
    if (!nothingWritten(outcome.error)) maybeWritten = outcome.error;
    if (clock() + pauseMs >= deadline) throw toOutcome(outcome.error, maybeWritten);
    await delay(pauseMs);
  }
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

type Outcome<Result> = { ok: true; result: Result } | { ok: false; error: unknown };

/** What came of `work`, or that it was late; late work itself goes on, its outcome unknown. */
function within<Result>(ms: number, work: Promise<Result>): Promise<Outcome<Result>> {
  return new Promise((resolve) => {
    const onLate = (): void => resolve({ ok: false, error: new Error(LATE) });
    const timer = setTimeout(onLate, Math.max(ms, 0));
    const settle = (outcome: Outcome<Result>): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    work.then(
      (result) => settle({ ok: true, result }),
      (error: unknown) => settle({ ok: false, error }),
    );
  });
}
