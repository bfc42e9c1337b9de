import { type AppError, toAppError } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import type { FailedRef } from "./call-record.ts";
import type { CallFilter, FailedCall, FailedCalls } from "./failed.ts";

/** Replays or discards one failed call. */
export type Operate = (failed: FailedRef, why: Why) => Promise<Operated>;

/**
 * Outcome of a replay or discard. `left`: another operator replayed or discarded the call earlier, so nothing was done.
 * `finished`: another discard of the same call had begun, and has died or still runs. This one completed the work.
 */
export type Operated = "done" | "finished" | "left";

/**
 * Fields of the audit log: the filters or ids that selected the call, the operator's reason, and the id of the bulk
 * operation.
 */
export type Why = { selection: string; reason?: string | undefined; run?: string | undefined };

/** Dependencies of replay and discard; `by` is the operator. */
export type OperateDeps = { partition: Partition; clock: Clock; log: Logger; by: string };

/** Dependencies of replay and discard over all partitions. */
export type OperatorDeps = Omit<OperateDeps, "partition"> & { partitions: Partitions };

/** Creates an operation that runs in the partition of each call. */
export function operateIn(
  create: (deps: OperateDeps) => Operate,
  { partitions, ...deps }: OperatorDeps,
): Operate {
  const each = partitions.map((partition) => create({ ...deps, partition }));
  return (failed, why) => each.of(failed.id)(failed, why);
}

/** Yields the matching calls, oldest first, at most `limit` of them; fewer if aborted. */
export async function* select(
  calls: FailedCalls,
  filter: CallFilter,
  { limit, signal }: { limit: number; signal: AbortSignal },
): AsyncGenerator<FailedCall> {
  let selected = 0;
  for await (const call of calls.matching(filter)) {
    if (signal.aborted) return;
    yield call;
    selected += 1;
    if (selected === limit) return;
  }
}

export type Progress = {
  done: number;
  /** Number of calls that another operator has already replayed or discarded. */
  left: number;
  total: number;
};

export type ManyResult = Progress & {
  /** Number of calls whose operation was not started, or ended with an error. */
  remaining: number;
  /** The first error. It stops the bulk operation, because every further call would probably fail too. */
  failure: AppError | undefined;
};

/**
 * Replays or discards calls as they are read, `concurrency` at a time, until `total` are done, `signal` aborts or one fails.
 * If fewer than `total` calls are found, other operators have replayed or discarded the rest since they were counted.
 */
export async function operateMany(
  selected: AsyncIterable<FailedCall>,
  {
    total,
    operate,
    why,
    concurrency,
    signal,
    onProgress,
  }: {
    /** Number of matching calls, counted earlier. If more calls match now, the additional ones stay unchanged. */
    total: number;
    operate: Operate;
    why: Why;
    concurrency: number;
    /** After an abort, the calls in progress are finished, and no other call is started. */
    signal: AbortSignal;
    onProgress: (progress: Progress) => void;
  },
): Promise<ManyResult> {
  const progress = { done: 0, left: 0, total };
  const source = selected[Symbol.asyncIterator]();
  let begun = 0;
  let exhausted = false;
  let failure: AppError | undefined;
  const isStopped = () => signal.aborted || exhausted || failure !== undefined || begun >= total;

  async function one(): Promise<void> {
    const next = await source.next();
    // After an abort the source may end early, so its end does not show that no call is left.
    if (next.done && !signal.aborted) exhausted = true;
    if (next.done || signal.aborted || failure !== undefined) return;
    progress[(await operate(next.value, why)) === "left" ? "left" : "done"] += 1;
    onProgress({ ...progress });
  }

  async function work(): Promise<void> {
    while (!isStopped()) {
      begun += 1;
      await one().catch((error: unknown) => {
        failure ??= toAppError(error);
      });
    }
  }

  await Promise.all(Array.from({ length: concurrency }, work));
  await source.return?.();
  if (exhausted && failure === undefined) progress.left = total - progress.done;
  return { ...progress, remaining: total - progress.done - progress.left, failure };
}
