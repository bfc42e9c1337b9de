import type { JobIds } from "../../../shared/call/job-ids.ts";
import type { AcceptedToken, X402Toml } from "../../../shared/config/x402-toml.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { Catalog, Token } from "./catalog.ts";
import { SHARED_SECONDS } from "./offer.ts";

/** The offers under an earlier configuration, until the last one expires. */
export type EarlierOffers = {
  /** Unix ms. */
  until: number;
  tokens: readonly AcceptedToken[];
  catalog: Pick<Catalog, "find">;
};

/** The offers of a gateway that another one follows in this process. */
export function toEarlierOffers(
  { accepted_tokens: tokens, quote_ttl_secs }: X402Toml,
  catalog: Catalog,
  now: number,
): EarlierOffers {
  return { until: now + (quote_ttl_secs + SHARED_SECONDS) * 1000, tokens, catalog };
}

/**
 * The tokens of earlier offers that are accepted no longer. An offer is honoured only if its money goes to an address that is
 * still configured: a key may be lost.
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

/** The amounts of this job in version 1 that were offered in this token: such an offer has no signature that would say so. */
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
