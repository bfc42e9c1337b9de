import { type Clock, type Settled, settled } from "../time/clock.ts";
import { BoundedMap } from "./bounded-map.ts";

type Options<Value> = {
  /** How long an outcome is kept. */
  keptMs: number;
  /** Beyond this many the oldest goes. */
  entriesMax?: number;
  /** Which outcomes are kept; by default values and no failures. Work under way is always shared. */
  keeps?: (outcome: Settled<Value>) => boolean;
  clock: Clock;
};

export type ShortCache<Value> = {
  /** The kept outcome of this key, or that of the work under way, or else of this work. */
  get(key: string, work: () => Promise<Value>): Promise<Value>;
};

type Kept<Value> = { outcome: Promise<Value>; until: number };

const ENTRIES_MAX = 10_000;

/** Does work once for all who ask for the same at a time or shortly after. Work under way displaces nothing that is kept. */
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

/** For `keeps`: the failures of these errors, and no values. */
export function keepFailures(isKept: (error: unknown) => boolean) {
  return (outcome: Settled<unknown>): boolean => outcome.kind === "failed" && isKept(outcome.error);
}
