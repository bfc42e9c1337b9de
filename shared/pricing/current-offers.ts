import { amountProblem, type Offer } from "./price-list.ts";
import { type TokenRate, tokenAmount } from "./token-amount.ts";

/** What a token is worth now, in tokens for 10^18 wei; undefined where nobody knows. */
export type RateOf<Token> = (token: Token) => string | undefined;

type Priced = Omit<TokenRate, "rate_per_native_unit">;

/** What a price in wei comes to in every token whose rate is known now, and where the amount is one that can be paid. */
export function currentOffers<Token extends Priced>(
  priceWei: bigint,
  tokens: readonly Token[],
  rateOf: RateOf<Token>,
): Offer<Token>[] {
  return tokens.flatMap((token) => {
    const rate = rateOf(token);
    if (rate === undefined) return [];
    const { decimals, markup_bps } = token;
    const amount = tokenAmount(priceWei, { decimals, markup_bps, rate_per_native_unit: rate });
    return amountProblem(amount) === undefined ? [{ token, amount }] : [];
  });
}
