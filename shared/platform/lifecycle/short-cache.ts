import { type Clock, type Settled, settled } from "../time/clock.ts";
import { BoundedMap } from "./bounded-map.ts";

type Options<Value> = {
  /** Time for which an outcome is kept. */
  keptMs: number;
  /** Limit on kept outcomes. Beyond it, the oldest is deleted. */
  entriesMax?: number;
  /**
   * Returns whether an outcome is kept. By default, values are kept and failures are not. Running work is always
   * shared.
   */
  keeps?: (outcome: Settled<Value>) => boolean;
  clock: Clock;
};

export type ShortCache<Value> = {
  /** Returns the kept outcome of this key. Without one, waits for the running work of this key, or runs `work`. */
  get(key: string, work: () => Promise<Value>): Promise<Value>;
};

type Kept<Value> = { outcome: Promise<Value>; until: number };

const ENTRIES_MAX = 10_000;

/**
 * Creates a cache that runs work once for all callers that need the same key at the same time or shortly after. Only
 * ended work counts towards `entriesMax`.
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

/** Creates a `keeps` function that keeps matching failures, and no values. */
export function keepFailures(isKept: (error: unknown) => boolean) {
  return (outcome: Settled<unknown>): boolean => outcome.kind === "failed" && isKept(outcome.error);
}
