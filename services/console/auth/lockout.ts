import { addressKey } from "../../../shared/http/ip/address.ts";
import { createAllowance, useBoth } from "../../../shared/platform/lifecycle/allowance.ts";
import { BoundedMap } from "../../../shared/platform/lifecycle/bounded-map.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";

/** Limit on the wrong tokens that one address may send per minute to this replica. */
const PER_ADDRESS = 10;
/**
 * Limit on the wrong tokens that all addresses together may send per minute. Leaves out wrong tokens from an address
 * that has sent a valid token within the last hour.
 */
const ALL_ADDRESSES = 100;
const KNOWN_MS = 3_600_000;
const KNOWN_MAX = 1000;

export type Lockout = {
  /**
   * Counts one try of this address. Returns a function that takes the count back. Throws `request.rate_limited` if
   * this address, or all addresses together, have no try left.
   */
  takeTry(address: string): () => void;
  /**
   * Notes that this address has sent a valid token. For an hour, wrong tokens from other addresses then cannot block
   * this address.
   */
  trust(address: string): void;
};

/**
 * Limits how many tokens an attacker can try. The counts are in this process's memory and not in Redis. Strangers must
 * not be able to fill Redis, and the limit must also work while Redis is unavailable.
 */
export function createLockout(clock: Clock): Lockout {
  const publicDetail = "too many wrong tokens; find the client that sends them, and try again later";
  const addressAllowance = createAllowance({
    perMinute: PER_ADDRESS,
    what: "wrong tokens",
    publicDetail,
    clock,
  });
  const totalAllowance = createAllowance({
    perMinute: ALL_ADDRESSES,
    what: "wrong tokens",
    publicDetail,
    clock,
  });
  const known = new BoundedMap<string, number>(KNOWN_MAX);

  function isKnown(key: string): boolean {
    return clock() - (known.get(key) ?? Number.NEGATIVE_INFINITY) < KNOWN_MS;
  }

  return {
    takeTry(address) {
      const key = addressKey(address);
      const useAddressAllowance = () => addressAllowance.use(key);
      return isKnown(key)
        ? useAddressAllowance()
        : useBoth(useAddressAllowance, () => totalAllowance.use("all addresses"));
    },

    trust(address) {
      const key = addressKey(address);
      known.delete(key);
      known.set(key, clock());
    },
  };
}
