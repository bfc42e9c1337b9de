import { addressKey } from "../../../shared/http/ip/address.ts";
import { createAllowance, useBoth } from "../../../shared/platform/lifecycle/allowance.ts";
import { BoundedMap } from "../../../shared/platform/lifecycle/bounded-map.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";

/** Wrong tokens of one address in a minute, at each replica. */
const PER_ADDRESS = 10;
/** The same of all addresses together, but for those that have shown a good one lately. */
const OF_ALL = 100;
const KNOWN_MS = 3_600_000;
const KNOWN_MAX = 1000;

export type Lockout = {
  /** Takes a try of this address. Returns what gives it back. Throws `request.rate_limited` if none is left. */
  takeTry(address: string): () => void;
  /** Notes that this address has shown a good token: for an hour the wrong tokens of other addresses do not hold it back. */
  trust(address: string): void;
};

/**
 * Bounds how often tokens can be guessed. It is in this process's memory, so that strangers cannot fill Redis, and it holds while Redis is
 * away.
 */
export function createLockout(clock: Clock): Lockout {
  const publicDetail = "too many wrong tokens; find the client that sends them, and try again later";
  const ofAddress = createAllowance({ perMinute: PER_ADDRESS, what: "wrong tokens", publicDetail, clock });
  const ofAll = createAllowance({ perMinute: OF_ALL, what: "wrong tokens", publicDetail, clock });
  const known = new BoundedMap<string, number>(KNOWN_MAX);

  function isKnown(key: string): boolean {
    return clock() - (known.get(key) ?? Number.NEGATIVE_INFINITY) < KNOWN_MS;
  }

  return {
    takeTry(address) {
      const key = addressKey(address);
      const useOwn = () => ofAddress.use(key);
      return isKnown(key) ? useOwn() : useBoth(useOwn, () => ofAll.use("all addresses"));
    },

    trust(address) {
      const key = addressKey(address);
      known.delete(key);
      known.set(key, clock());
    },
  };
}
