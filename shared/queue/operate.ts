import { type AppError, toAppError } from "../errors/app-error.ts";
import type { ErrorCode } from "../errors/codes.ts";
import type { FailedRef } from "./call-record.ts";
import type { CallFilter, FailedCalls } from "./failed.ts";
import type { Operate, Why } from "./replay.ts";

/** A failed call that is to be replayed or discarded, without its body. */
export type Selected = FailedRef & { acceptedAt: number; code: ErrorCode };

type Bounds = { limit: number; signal: AbortSignal };

/** The calls that match, the oldest first, at most `limit` of them; fewer when aborted. */
export async function select(
  calls: FailedCalls,
  filter: CallFilter,
  { limit, signal }: Bounds,
): Promise<Selected[]> {
  const selected: Selected[] = [];
  for await (const { id, origin, failedAt, acceptedAt, code } of calls.matching(filter)) {
    if (selected.length >= limit || signal.aborted) break;
    selected.push({ id, origin, failedAt, acceptedAt, code });
  }
  return selected;
}

export type Progress = {
  done: number;
  /** Replayed or discarded by somebody else meanwhile. */
  left: number;
  total: number;
};

type ManyOptions = {
  operate: Operate;
  why: Why;
  concurrency: number;
  /** No further call is begun once it is aborted; those begun are finished. */
  signal: AbortSignal;
  onProgress: (progress: Progress) => void;
};

export type ManyResult = Progress & {
  /** Not done: not begun, or ended with `failure`. */
  remaining: Selected[];
  /** What stopped the run: the first error, which a further call would meet as well. */
  failure: AppError | undefined;
};

/** Replays or discards calls one by one, some at a time, until all are done, it is aborted or one fails. */
export async function operateMany(selected: readonly Selected[], options: ManyOptions): Promise<ManyResult> {
  const { operate, why, signal, onProgress } = options;
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

  if (!signal.aborted) await Promise.all(Array.from({ length: options.concurrency }, work));
  return { ...progress, remaining: [...pending], failure };
}
