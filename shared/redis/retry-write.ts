import { AppError, messageOf, RETRY_AFTER_MS } from "../platform/errors/app-error.ts";
import { type Clock, delay, type Outcome, settled, within } from "../platform/time/clock.ts";
import type { Run, Script } from "./define-script.ts";
import type { DurableRedis } from "./durable.ts";
import { failureOf, isLasting, isUnwritten, unlessRedis } from "./failure.ts";
import { extraMs, isLarge, ownMs } from "./large.ts";
import type { LargeWrites } from "./large-writes.ts";
import type { Partition } from "./partition.ts";
import { isUnreadable } from "./unreadable.ts";

const PAUSE_MS_MAX = 400;

/** Name of the connection on which a write runs. Large writes have their own connection (large-writes.ts). */
export type Lane = "small" | "large";

/** Binds a script to two connections: that for small writes and that for large ones. */
export function byLane<Keys, Args, Reply>(
  small: Partition,
  large: Partition,
  script: Script<Keys, Args, Reply>,
): Readonly<Record<Lane, Run<Keys, Args, Reply>>> {
  return { small: script.on(small.redis), large: script.on(large.redis) };
}

/**
 * Repeats an idempotent write until it succeeds or the deadline has passed. `bytes` decides on which connection `write` runs;
 * the default is the one for small writes. If an attempt failed because its reply was lost, its write may still have
 * happened. If so, throws `queue.outcome_unknown` at the end. Otherwise throws the reason why no call can be accepted
 * (`queue.unavailable`, `queue.denied`, `queue.not_durable`). Does not repeat after a lasting error or `record.unreadable`.
 */
export type RetryWrite = <Result>(write: (lane: Lane) => Promise<Result>, bytes?: number) => Promise<Result>;

/**
 * Starts the deadline for all writes of one request, and returns the function that runs them. `bytes`, the size of the
 * largest write, extends the deadline.
 */
export type BeginWrite = (bytes?: number) => RetryWrite;

type Options = { small: DurableRedis; large: LargeWrites; clock: Clock; deadlineMs: number };

export function createBeginWrite({ small, large, clock, deadlineMs }: Options): BeginWrite {
  function attempt<Result>(
    write: (lane: Lane) => Promise<Result>,
    bytes: number,
    deadline: number,
  ): Promise<Outcome<Result>> {
    const begin = (lane: Lane) => () => noteFailures(write(lane));
    if (!isLarge(bytes)) return within(deadline - clock(), small.write(begin("small")));
    return settled(large.write(begin("large"), { bytes, until: deadline }));
  }

  /** Reports to `small` if Redis is too full for a write or denies it, so that readiness checks show this. */
  async function noteFailures<Result>(written: Promise<Result>): Promise<Result> {
    try {
      return await written;
    } catch (error) {
      const failure = failureOf(error);
      if (failure === "full") small.noteFull(messageOf(error));
      if (failure === "denied") small.noteDenied(error);
      throw error;
    }
  }

  async function repeat<Result>(
    write: (lane: Lane) => Promise<Result>,
    bytes: number,
    deadline: number,
  ): Promise<Result> {
    const lastBegin = deadline - ownMs(bytes);
    let maybeWritten: unknown;
    for (let pauseMs = 25; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
      const outcome = await attempt(write, bytes, deadline);
      if (outcome.kind === "done") return outcome.result;
      const error = outcome.kind === "failed" ? unlessFinal(outcome.error) : new Error(SILENT);
      if (!isUnwritten(error)) maybeWritten = error;
      if (isLasting(error) || clock() + pauseMs >= lastBegin) throw toOutcome(error, maybeWritten);
      await delay(pauseMs);
    }
  }

  return (largest = 0) => {
    const deadline = clock() + deadlineMs + extraMs(largest);
    return (write, bytes = 0) => repeat(write, bytes, deadline);
  };
}

const SILENT = "Redis did not answer within the deadline";

/** Throws at once if the stored data cannot be read, because repeating the write cannot change that. */
function unlessFinal(error: unknown): unknown {
  if (isUnreadable(error)) throw error;
  return error;
}

function toOutcome(error: unknown, maybeWritten: unknown): unknown {
  if (maybeWritten === undefined) return unlessRedis(error);
  return new AppError("queue.outcome_unknown", {
    reason: messageOf(maybeWritten),
    retryAfterMs: RETRY_AFTER_MS,
    cause: maybeWritten,
  });
}
