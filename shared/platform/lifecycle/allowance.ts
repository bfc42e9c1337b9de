import { AppError } from "../errors/app-error.ts";
import type { Clock } from "../time/clock.ts";
import { BoundedMap } from "./bounded-map.ts";

type Options = {
  /** What each party may use at once, and gets back in a minute. */
  perMinute: number;
  /** What is counted, as the log names it. */
  what: string;
  /** Told to whoever has used it up. */
  publicDetail: string;
  clock: Clock;
};

export type Allowance = {
  /** Uses one of this party's. Returns what gives it back. Throws `request.rate_limited` if none is left. */
  use(party: string): () => void;
};

/** Beyond this many the one that was begun first is forgotten, and has all of its own again. */
const PARTIES_MAX = 10_000;

type Bucket = { left: number; at: number };

/** A token bucket for each party, in the memory of this process. */
export function createAllowance({ perMinute, what, publicDetail, clock }: Options): Allowance {
  const buckets = new BoundedMap<string, Bucket>(PARTIES_MAX);
  const msEach = 60_000 / perMinute;

  function bucketOf(party: string): Bucket {
    const now = clock();
    const known = buckets.get(party);
    if (known !== undefined) {
      known.left = Math.min(perMinute, known.left + Math.max(0, now - known.at) / msEach);
      known.at = now;
      return known;
    }
    const bucket = { left: perMinute, at: now };
    buckets.set(party, bucket);
    return bucket;
  }

  return {
    use(party) {
      const bucket = bucketOf(party);
      if (bucket.left < 1) {
        const reason = `${party} exceeded ${perMinute} ${what} a minute`;
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

/** Uses one of each, or none. Returns what gives both back; throws what the first refusal says. */
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
