import { AppError } from "../errors/app-error.ts";
import type { Clock } from "../time/clock.ts";
import { BoundedMap } from "./bounded-map.ts";

type Options = {
  /** Size of each key's budget. A budget that is used up refills steadily, and is full again after a minute. */
  perMinute: number;
  /** Plural name of the limited things, for the log, such as "slow checks of bodies". */
  what: string;
  /** Text for a client whose budget is used up. */
  publicDetail: string;
  clock: Clock;
};

export type Allowance = {
  /**
   * Uses one unit of this key's budget. Returns a function that refunds the unit. Throws `request.rate_limited` if the
   * budget is used up.
   */
  use(key: string): () => void;
};

/**
 * Limit on remembered keys. Beyond it, the key that was added first is forgotten. If it is used again, it has a full
 * budget.
 */
const KEYS_MAX = 10_000;

type Bucket = { left: number; at: number };

/** Creates a token bucket for each key, in this process's memory. */
export function createAllowance({ perMinute, what, publicDetail, clock }: Options): Allowance {
  const buckets = new BoundedMap<string, Bucket>(KEYS_MAX);
  const msEach = 60_000 / perMinute;

  function bucketOf(key: string): Bucket {
    const now = clock();
    const known = buckets.get(key);
    if (known !== undefined) {
      known.left = Math.min(perMinute, known.left + Math.max(0, now - known.at) / msEach);
      known.at = now;
      return known;
    }
    const bucket = { left: perMinute, at: now };
    buckets.set(key, bucket);
    return bucket;
  }

  return {
    use(key) {
      const bucket = bucketOf(key);
      if (bucket.left < 1) {
        const reason = `${key} exceeded ${perMinute} ${what} a minute`;
        const retryAfterMs = Math.ceil((1 - bucket.left) * msEach);
        throw new AppError("request.rate_limited", { reason, publicDetail, retryAfterMs });
      }
      bucket.left -= 1;
      let isUsed = true;
      return () => {
        if (isUsed) bucket.left += 1;
        isUsed = false;
      };
    },
  };
}

/**
 * Uses one unit of each of two budgets, or of neither. Returns a function that refunds both units. Throws the error of
 * the first budget that is used up.
 */
export function useBoth(useOne: () => () => void, useOther: () => () => void): () => void {
  const release = useOne();
  try {
    const releaseOther = useOther();
    return () => {
      release();
      releaseOther();
    };
  } catch (refusal) {
    release();
    throw refusal;
  }
}
