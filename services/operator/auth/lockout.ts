import { addressKey } from "../../../shared/ip/address.ts";
import { createAllowance } from "../../../shared/lifecycle/allowance.ts";
import type { Clock } from "../../../shared/time/clock.ts";

/** Wrong tokens of one address in a minute, at each replica. */
const PER_ADDRESS = 10;
/** The same of all addresses together, but for those that have shown a good one lately. */
const OF_ALL = 100;
const KNOWN_MS = 3_600_000;
const KNOWN_MAX = 1000;

export type Lockout = {
  /**
   * Takes a try of this address before its token is looked at. Returns what gives it back if the token is good. Throws
   * `request.rate_limited` if none is left: then not even a good token is let in.
   */
  begin(address: string): () => void;
};

/**
 * Bounds how often tokens can be guessed. It is in this process's memory, so that strangers cannot fill Redis, and it holds while Redis is
 * away. Sessions are not subject to it: a cookie that holds is no guess.
 */
export function createLockout(clock: Clock): Lockout {
  const publicDetail = "too many wrong tokens; wait, and look at what sends them";
  const ofAddress = createAllowance({ perMinute: PER_ADDRESS, what: "wrong tokens", publicDetail, clock });
  const ofAll = createAllowance({ perMinute: OF_ALL, what: "wrong tokens", publicDetail, clock });
  const known = new Map<string, number>();

  function isKnown(key: string): boolean {
    return clock() - (known.get(key) ?? Number.NEGATIVE_INFINITY) < KNOWN_MS;
  }

  function remember(key: string): void {
    known.delete(key);
    known.set(key, clock());
    const oldest = known.size > KNOWN_MAX ? known.keys().next().value : undefined;
    if (oldest !== undefined) known.delete(oldest);
  }

  return {
    begin(address) {
      const key = addressKey(address);
      const giveBack = [ofAddress.use(key)];
      try {
        if (!isKnown(key)) giveBack.push(ofAll.use("all addresses"));
      } catch (refusal) {
        giveBack[0]?.();
        throw refusal;
      }
      return () => {
        for (const each of giveBack) each();
        remember(key);
      };
    },
  };
}
