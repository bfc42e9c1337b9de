import type { JobIds } from "../../../shared/call/job-ids.ts";
import type { AcceptedToken, X402Toml } from "../../../shared/config/x402-toml.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Catalog, Token } from "./catalog.ts";
import { SHARED_SECONDS } from "./offer.ts";

/** Offers under an earlier configuration, until the last one expires. */
export type EarlierOffers = {
  /** Unix ms. */
  until: number;
  tokens: readonly AcceptedToken[];
  catalog: Pick<Catalog, "find">;
};

/** Returns the offers of a gateway that is about to be replaced in this process. */
export function toEarlierOffers(
  { accepted_tokens: tokens, quote_ttl_secs }: X402Toml,
  catalog: Catalog,
  now: number,
): EarlierOffers {
  return { until: now + (quote_ttl_secs + SHARED_SECONDS) * 1000, tokens, catalog };
}

/**
 * Returns the tokens that only earlier offers accept. Such an offer counts only if its money goes to an address that is still configured,
 * because the key of a removed address may be lost.
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
 * Creates a function that returns the earlier amounts of a job in a token, for version 1. Payments of version 1 do not return a signed
 * offer, so the gateway must remember the amounts.
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
