import { type Clock, type Settled, settled } from "../time/clock.ts";
import { BoundedMap } from "./bounded-map.ts";

type Options<Value> = {
  /** Time for which an outcome is kept. */
  keptMs: number;
  /** Limit on kept outcomes. Beyond it, the oldest is deleted. */
  entriesMax?: number;
  /**
   * Returns whether an outcome is kept after its work has ended. By default, values are kept and failures are not.
   * While work is running, all callers share it in any case.
   */
  keeps?: (outcome: Settled<Value>) => boolean;
  clock: Clock;
};

export type ShortCache<Value> = {
  /**
   * Returns the kept outcome of this key. If none is kept, waits for the work that is running for this key. If none is
   * running, runs `work`.
   */
  get(key: string, work: () => Promise<Value>): Promise<Value>;
};

type Kept<Value> = { outcome: Promise<Value>; until: number };

const ENTRIES_MAX = 10_000;

/**
 * Creates a cache. If several callers need the same key at the same time or within `keptMs`, the work runs only once
 * for all of them. Only the outcomes of ended work count towards `entriesMax`.
 */
export function createShortCache<Value>(options: Options<Value>): ShortCache<Value> {
  const { keptMs, entriesMax = ENTRIES_MAX, keeps = ({ kind }) => kind === "done", clock } = options;
  const pending = new Map<string, Promise<Value>>();
  const kept = new BoundedMap<string, Kept<Value>>(entriesMax);

  function keep(key: string, outcome: Promise<Value>): void {
    kept.delete(key);
    kept.set(key, { outcome, until: clock() + keptMs });
  }

  async function begin(key: string, work: () => Promise<Value>): Promise<Value> {
    const outcome = work();
    pending.set(key, outcome);
    const ended = await settled(outcome);
    pending.delete(key);
    if (keeps(ended)) keep(key, outcome);
    return outcome;
  }

  return {
    get(key, work) {
      const known = kept.get(key);
      if (known !== undefined && known.until > clock()) return known.outcome;
      return pending.get(key) ?? begin(key, work);
    },
  };
}

/** Creates the option `keeps` of a cache that keeps only failures for which `isKept` is true, and no values. */
export function keepFailures(isKept: (error: unknown) => boolean) {
  return (outcome: Settled<unknown>): boolean => outcome.kind === "failed" && isKept(outcome.error);
}
