import { AppError, messageOf } from "../errors/app-error.ts";
import type { DurableRedis } from "../redis/durable.ts";
import { type Clock, delay } from "../time/clock.ts";
import { within } from "../time/within.ts";

/** Redis refused these before it wrote anything, so their outcome is known: nothing happened. */
const REFUSED_UNWRITTEN = /^(OOM|MISCONF|READONLY|NOREPLICAS|LOADING|NOPERM|NOAUTH|MASTERDOWN|CLUSTERDOWN)\b/;
/** ioredis never sent these. */
const NEVER_SENT = /enableOfflineQueue|isn't writeable/;

const PAUSE_MS_MAX = 400;

type Options = { redis: DurableRedis; clock: Clock; deadlineMs: number };

export type RetryWrite = <Result>(write: () => Promise<Result>) => Promise<Result>;

/**
 * Each call begins a deadline, which all writes made through what it returns share. Repeats an idempotent write until its
 * outcome is known or the deadline has passed. A rejection does not mean that nothing was written: the reply may be what was
 * lost. Throws `queue.outcome_unknown` when an earlier try may have been written, else what keeps calls from being taken
 * (`queue.unavailable`, `queue.not_durable`).
 */
export function createBeginWrite(options: Options): () => RetryWrite {
  return () => {
    const deadline = options.clock() + options.deadlineMs;
    return (write) => beginWrite(options, { write, deadline });
  };
}

type Due<Result> = { write: () => Promise<Result>; deadline: number };

async function beginWrite<Result>(
  { redis, clock }: Options,
  { write, deadline }: Due<Result>,
): Promise<Result> {
  let maybeWritten: unknown;
  for (let pauseMs = 25; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
    const outcome = await within(deadline - clock(), redis.write(write));
    if (outcome.kind === "done") return outcome.result;
    const error =
      outcome.kind === "failed" ? outcome.error : new Error("Redis did not answer within the deadline");
    if (!nothingWritten(error)) maybeWritten = error;
    if (clock() + pauseMs >= deadline) throw toOutcome(error, maybeWritten);
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
