import { AppError } from "../platform/errors/app-error.ts";

/** Whether work can be taken now, and what was found of each part. */
export type Readiness = { ready: boolean; checks: Readonly<Record<string, unknown>> };

/** One check of a readiness answer: what was found, or the refusal. */
type Explained = { ok: boolean; text: string };

export function explain(ask: () => string): Explained {
  try {
    return { ok: true, text: ask() };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { ok: false, text: `${error.code}: ${error.message}` };
  }
}

/** Checks of one partition: whether its Redis can be used, and what a process adds to that. */
type OfPartition = Explained & { checks?: Readonly<Record<string, unknown>> };

/** The partitions' part of a readiness answer. If there is one, its checks stand among all others. */
export function partitionChecks(found: readonly OfPartition[]): Readiness["checks"] {
  const partitions = found.map(({ text, checks }) => ({ redis: text, ...checks }));
  if (partitions.length === 1) return { ...partitions[0] };
  const usable = found.filter(({ ok }) => ok).length;
  return { redis: `${usable} of ${found.length} partitions can be used`, partitions };
}
