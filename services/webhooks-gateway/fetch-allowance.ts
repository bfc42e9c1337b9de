import { addressKey, networksOf } from "../../shared/http/ip/address.ts";
import { BoundedMap } from "../../shared/platform/lifecycle/bounded-map.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";

/**
 * Size of the allowance. At most this many fetches can be saved up, and the same number is added in the course of each
 * minute.
 */
const FETCHES = 30;
/**
 * Time in ms for which a client's network is remembered after it has caused a fetch. It is forgotten at once if the
 * fetched document verifies a delivery, because the sender then caused the fetch.
 */
const REMEMBERED_MS = 3_600_000;
/** Limit on remembered networks. Beyond this number the oldest is forgotten. */
const NETWORKS_MAX = 10_000;

/**
 * Limits the fetches that unverified requests to one endpoint can cause. All clients share the allowance. The last half
 * of the allowance is for networks that have fetched nothing yet, or whose last fetch has led to a verified delivery.
 * So in a flood of forged requests, each network gets at most one fetch of that half. The rest is left for the real
 * sender.
 */
export class FetchAllowance {
  readonly #clock: Clock;
  #left = FETCHES;
  #at: number;
  /** Last fetch of each network, unless the fetched document has verified a delivery. */
  readonly #unverified = new BoundedMap<string, { readonly at: number; readonly url: string }>(NETWORKS_MAX);

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#at = clock();
  }

  /** Uses one fetch of the allowance. Returns false if the client's network may not fetch this URL now. */
  use(url: string, address: string): boolean {
    const now = this.#clock();
    const gained = (Math.max(0, now - this.#at) * FETCHES) / 60_000;
    this.#left = Math.min(FETCHES, this.#left + gained);
    this.#at = now;
    const network = networksOf(addressKey(address)).at(-1) ?? address;
    const last = this.#unverified.get(network);
    const isUnverified = last !== undefined && now - last.at < REMEMBERED_MS;
    if (this.#left < 1 + (isUnverified ? FETCHES / 2 : 0)) return false;
    this.#left -= 1;
    this.#unverified.delete(network); // so that `set` adds the entry as the newest
    this.#unverified.set(network, { at: now, url });
    return true;
  }

  /** Records that the document at this URL has verified a delivery. */
  markProven(url: string): void {
    for (const [network, last] of this.#unverified) if (last.url === url) this.#unverified.delete(network);
  }
}
