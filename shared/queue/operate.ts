import { type AppError, toAppError } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import type { FailedRef } from "./call-record.ts";
import type { CallFilter, FailedCall, FailedCalls } from "./failed.ts";

/** Replays or discards one failed call. */
export type Operate = (failed: FailedRef, why: Why) => Promise<Operated>;

/**
 * `left`: another operator replayed or discarded the call in between; nothing was done. `finished`: it is done, but another discard had
 * begun it, which died or does the same at this moment.
 */
export type Operated = "done" | "finished" | "left";

/** For the audit: the filters or ids that chose the call, the operator's reason if there is one, and the bulk operation's run. */
export type Why = { selection: string; reason?: string | undefined; run?: string | undefined };

/** What replay and discard need; `by` is the operator. */
export type OperateDeps = { partition: Partition; clock: Clock; log: Logger; by: string };

/** Replay and discard over all partitions need this. */
export type OperatorDeps = Omit<OperateDeps, "partition"> & { partitions: Partitions };

/** An operation that is done in the partition of each call. */
export function operateIn(
  create: (deps: OperateDeps) => Operate,
  { partitions, ...deps }: OperatorDeps,
): Operate {
  const each = partitions.map((partition) => create({ ...deps, partition }));
  return (failed, why) => each.of(failed.id)(failed, why);
}

/** The calls that match, oldest first, at most `limit` of them; fewer if aborted. */
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
  /** Replayed or discarded by another operator in between. */
  left: number;
  total: number;
};

export type ManyResult = Progress & {
  /** How many are not done: not begun, or ended with `failure`. */
  remaining: number;
  /** What stopped the run: the first error, since every further call would probably meet it too. */
  failure: AppError | undefined;
};

/**
 * Replays or discards calls as they are read, `concurrency` at a time, until `total` are done, it is aborted or one fails. If
 * there are fewer, the others have left since they were counted.
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
    /** How many calls were counted; no more are begun, though further ones match by now. */
    total: number;
    operate: Operate;
    why: Why;
    concurrency: number;
    /** Once it is aborted, no further call is begun; those begun are finished. */
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
    // Aborted, the selection may end early.
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
