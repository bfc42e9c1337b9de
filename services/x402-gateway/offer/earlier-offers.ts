import type { JobIds } from "../../../shared/call/job-ids.ts";
import type { AcceptedToken, X402Toml } from "../../../shared/config/x402-toml.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Catalog, Token } from "./catalog.ts";
import { SHARED_SECONDS } from "./offer.ts";

/**
 * Tokens and prices of a configuration from before a reload, with which clients may still pay. Kept until the last offer that was
 * made with them expires (`until`).
 */
export type EarlierOffers = {
  /** Unix ms. */
  until: number;
  tokens: readonly AcceptedToken[];
  catalog: Pick<Catalog, "find">;
};

/** Returns the offers of this process's current gateway, which a reload of the configuration is about to replace. */
export function toEarlierOffers(
  { accepted_tokens: tokens, quote_ttl_secs }: X402Toml,
  catalog: Catalog,
  now: number,
): EarlierOffers {
  return { until: now + (quote_ttl_secs + SHARED_SECONDS) * 1000, tokens, catalog };
}

/**
 * Returns the tokens that only earlier offers accept, because a reload has removed them. Such a token is left out if no token
 * of the new configuration has its payment address. The operator may have lost the key of a removed address.
 */
export function removedTokens(
  earlier: readonly EarlierOffers[],
  { accepted_tokens: accepted }: X402Toml,
): AcceptedToken[] {
  const payees = new Set(accepted.map(({ pay_to }) => pay_to.toLowerCase()));
  const known = new Set(accepted.map(nameOf));
  return earlier
    .flatMap(({ tokens }) => tokens)
    .filter((token) => {
      const isRemoved = !known.has(nameOf(token)) && payees.has(token.pay_to.toLowerCase());
      known.add(nameOf(token));
      return isRemoved;
    });
}

function nameOf({ network, asset }: AcceptedToken): string {
  return `${network}/${asset.toLowerCase()}`;
}

/**
 * Creates a function that returns the amounts that earlier offers had for a job in a token. Only version 1 needs it: its payments
 * do not return a signed offer, so the gateway must remember the amounts itself.
 */
export function createEarlierAmounts(earlier: readonly EarlierOffers[], clock: Clock) {
  return (ids: JobIds, { network, asset, payTo }: Token): bigint[] =>
    earlier
      .filter(({ until }) => clock() < until)
      .flatMap(({ catalog }) => catalog.find(ids)?.prices ?? [])
      .filter(
        ({ token, versions }) =>
          versions.v1 && token.network === network && token.asset === asset && token.payTo === payTo,
      )
      .map(({ amount }) => amount);
}
