import { type AppError, toAppError } from "../errors/app-error.ts";
import type { ErrorCode } from "../errors/codes.ts";
import type { Logger } from "../log/logger.ts";
import type { Partition } from "../redis/partition.ts";
import type { Clock } from "../time/clock.ts";
import type { FailedRef } from "./call-record.ts";
import type { CallFilter, FailedCalls } from "./failed.ts";

/** Replays or discards one failed call. */
export type Operate = (failed: FailedRef, why: Why) => Promise<Operated>;

/** `left`: another operator replayed or discarded the call in between; nothing was done. */
type Operated = "done" | "left";

/** For the audit: the filters or ids that chose the call, and the operator's reason if there is one. */
export type Why = { selection: string; reason?: string | undefined };

/** What replay and discard need; `by` is the operator. */
export type OperateDeps = { partition: Partition; clock: Clock; log: Logger; by: string };

/** A failed call that is to be replayed or discarded, without its body. */
export type Selected = FailedRef & { acceptedAt: number; code: ErrorCode };

/** The calls that match, oldest first, at most `limit` of them; fewer if aborted. */
export async function select(
  calls: FailedCalls,
  filter: CallFilter,
  { limit, signal }: { limit: number; signal: AbortSignal },
): Promise<Selected[]> {
  const selected: Selected[] = [];
  for await (const { id, queue, failedAt, acceptedAt, code } of calls.matching(filter)) {
    if (selected.length >= limit || signal.aborted) break;
    selected.push({ id, queue, failedAt, acceptedAt, code });
  }
  return selected;
}

export type Progress = {
  done: number;
  /** Replayed or discarded by another operator in between. */
  left: number;
  total: number;
};

export type ManyResult = Progress & {
  /** Not done: not begun, or ended with `failure`. */
  remaining: Selected[];
  /** What stopped the run: the first error, since every further call would probably meet it too. */
  failure: AppError | undefined;
};

/** Replays or discards calls, `concurrency` at a time, until all are done, it is aborted or one fails. */
export async function operateMany(
  selected: readonly Selected[],
  {
    operate,
    why,
    concurrency,
    signal,
    onProgress,
  }: {
    operate: Operate;
    why: Why;
    concurrency: number;
    /** Once it is aborted, no further call is begun; those begun are finished. */
    signal: AbortSignal;
    onProgress: (progress: Progress) => void;
  },
): Promise<ManyResult> {
  const progress = { done: 0, left: 0, total: selected.length };
  const pending = new Set(selected);
  const queue = selected.values();
  let failure: AppError | undefined;

  async function work(): Promise<void> {
    for (const call of queue) {
      try {
        progress[await operate(call, why)] += 1;
        pending.delete(call);
      } catch (error) {
        failure ??= toAppError(error);
      }
      onProgress({ ...progress });
      if (signal.aborted || failure !== undefined) return;
    }
  }

  if (!signal.aborted) await Promise.all(Array.from({ length: concurrency }, work));
  return { ...progress, remaining: [...pending], failure };
}
