import { currentOffers, type RateOf } from "../../shared/pricing/current-offers.ts";
import type { JobQuote } from "../../shared/pricing/job-quote.ts";
import { fixedRateOf } from "../../shared/pricing/rates/rated-token.ts";
import { settlementEndpoint, toSettlementOption } from "../../shared/pricing/settlement-options.ts";
import type { Settlement } from "./job-price.ts";

/** A token that a gateway takes, as x402.toml has it. */
export type AcceptedToken = {
  network: string;
  asset: string;
  symbol: string;
  decimals: number;
  markup_bps: number;
  pay_to: string;
  rate_per_native_unit: unknown;
};

export type X402Settlement<Token extends AcceptedToken> = {
  /** The public URL of the x402 gateway that takes the quotes. */
  endpoint: string;
  acceptedTokens: readonly Token[];
  /** What a token is worth now, as `createRates` has it; by default its `rate_per_native_unit`, where that is a text. */
  rateOf?: RateOf<Token>;
};

/** How a quote can be settled at an x402 gateway now: in every token whose rate is known. */
export function createSettle<Token extends AcceptedToken>(settlement: X402Settlement<Token>) {
  const { acceptedTokens, rateOf = fixedRateOf } = settlement;
  const endpoint = settlement.endpoint.replace(/\/$/, "");
  return (quote: JobQuote): Settlement => ({
    options: currentOffers(quote.priceWei, acceptedTokens, rateOf).map(({ token, amount }) =>
      toSettlementOption({ token: { ...token, payTo: token.pay_to }, amount }),
    ),
    endpoint: settlementEndpoint(endpoint, quote),
  });
}
