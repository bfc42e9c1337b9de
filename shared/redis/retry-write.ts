import { AppError, messageOf } from "../errors/app-error.ts";
import { type Clock, delay, within } from "../time/clock.ts";
import type { DurableRedis } from "./durable.ts";
import { isNewerError } from "./version.ts";

/** Redis refused these before it wrote anything, so nothing happened. */
const REFUSED_UNWRITTEN = /^(OOM|MISCONF|READONLY|NOREPLICAS|LOADING|NOPERM|NOAUTH|MASTERDOWN|CLUSTERDOWN)\b/;
/** ioredis never sent these. */
const NEVER_SENT = /enableOfflineQueue|isn't writeable/;

const PAUSE_MS_MAX = 400;

type Options = { redis: DurableRedis; clock: Clock; deadlineMs: number };

/**
 * Repeats an idempotent write until its outcome is known or the deadline has passed. A rejection does not mean that nothing
 * was written, since only the reply may be lost. Throws `queue.outcome_unknown` if a try may have been written, else the
 * reason for which no call can be taken (`queue.unavailable`, `queue.not_durable`). `record.newer` is thrown at once.
 */
export type RetryWrite = <Result>(write: () => Promise<Result>) => Promise<Result>;

/** Each call of what it returns begins a deadline, which all writes of one request share. */
export function createBeginWrite({ redis, clock, deadlineMs }: Options): () => RetryWrite {
  async function repeat<Result>(write: () => Promise<Result>, deadline: number): Promise<Result> {
    let maybeWritten: unknown;
    for (let pauseMs = 25; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
      const outcome = await within(deadline - clock(), redis.write(write));
      if (outcome.kind === "done") return outcome.result;
      const error = outcome.kind === "failed" ? unlessFinal(outcome.error) : new Error(SILENT);
      if (!isUnwritten(error)) maybeWritten = error;
      if (clock() + pauseMs >= deadline) throw toOutcome(error, maybeWritten);
      await delay(pauseMs);
    }
  }

  return () => {
    const deadline = clock() + deadlineMs;
    return (write) => repeat(write, deadline);
  };
}

const SILENT = "Redis did not answer within the deadline";

/** What a later release wrote is not for this one to change, however often it tries. */
function unlessFinal(error: unknown): unknown {
  if (isNewerError(error)) throw error;
  return error;
}

function isUnwritten(error: unknown): boolean {
  if (error instanceof AppError) return true;
  const message = messageOf(error);
  return REFUSED_UNWRITTEN.test(message) || NEVER_SENT.test(message);
}

function toOutcome(error: unknown, maybeWritten: unknown): AppError {
  if (maybeWritten === undefined && error instanceof AppError) return error;
  const code = maybeWritten === undefined ? "queue.unavailable" : "queue.outcome_unknown";
  const cause = maybeWritten ?? error;
  return new AppError(code, { reason: messageOf(cause), retryAfterMs: 2000, cause });
}
