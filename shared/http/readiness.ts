import { AppError } from "../platform/errors/app-error.ts";

/** State of a process: whether it accepts work now, and the result of each check. */
export type Readiness = { ready: boolean; checks: Readonly<Record<string, unknown>> };

/** Result of one check. The text describes the state, or why the check failed. */
type Explained = { ok: boolean; text: string };

export function explain(check: () => string): Explained {
  try {
    return { ok: true, text: check() };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { ok: false, text: `${error.code}: ${error.message}` };
  }
}

/** Checks of one partition: whether its Redis can be used, and additional checks of the process. */
type PartitionCheck = Explained & { checks?: Readonly<Record<string, unknown>> };

/** Returns the checks of all partitions, for a readiness answer. If there is only one, returns its checks directly. */
export function partitionChecks(found: readonly PartitionCheck[]): Readiness["checks"] {
  const partitions = found.map(({ text, checks }) => ({ redis: text, ...checks }));
  if (partitions.length === 1) return { ...partitions[0] };
  const usable = found.filter(({ ok }) => ok).length;
  return { redis: `${usable} of ${found.length} partitions can be used`, partitions };
}
