import { addressKey, networksOf } from "../../shared/http/ip/address.ts";
import { BoundedMap } from "../../shared/platform/lifecycle/bounded-map.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";

/** Size of the allowance: this many fetches may begin at once, and the same number is added each minute. */
const FETCHES = 30;
/**
 * Time in ms for which a network is remembered after a fetch that it caused, unless the fetched document verifies a
 * delivery.
 */
const REMEMBERED_MS = 3_600_000;
/** Limit on remembered networks. Beyond this number the oldest is forgotten. */
const NETWORKS_MAX = 10_000;

/**
 * Limits the fetches that unverified requests to one endpoint can cause. All clients share the allowance. After a
 * fetch, a client's network may fetch again only while more than half of the allowance is left, until the fetched
 * document has verified a delivery. So each network of a flood gets at most one fetch from the last half. The rest of
 * that half is left for the sender.
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
    this.#unverified.delete(network); // so that the entry becomes the newest
    this.#unverified.set(network, { at: now, url });
    return true;
  }

  /** Records that the document at this URL has verified a delivery. */
  markProven(url: string): void {
    for (const [network, last] of this.#unverified) if (last.url === url) this.#unverified.delete(network);
  }
}
