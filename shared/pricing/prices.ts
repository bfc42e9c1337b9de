import { type JobIds, jobKey } from "../call/job-ids.ts";
import { UINT256_MAX } from "../chain/encoding.ts";
import type { SchemeName } from "../chain/payment-schemes.ts";
import type { JobPrice, PriceList } from "../config/job-pricing-toml.ts";
import type { X402Toml } from "../config/x402-toml.ts";

/** Returns the jobs of the price list that are for sale. */
export function jobsOnSale(
  x402: Pick<X402Toml, "job_policies" | "default_invocation_mode">,
  prices: PriceList,
): JobPrice[] {
  const modes = new Map(
    x402.job_policies.map(({ service_id: serviceId, job_index: jobIndex, invocation_mode }) => [
      jobKey({ serviceId, jobIndex }),
      invocation_mode,
    ]),
  );
  const modeOf = (ids: JobIds) => modes.get(jobKey(ids)) ?? x402.default_invocation_mode;
  return [...prices.values()].filter((job) => modeOf(job) !== "disabled");
}

/** The rate of a token, in the terms of x402.toml. */
export type TokenRate = {
  decimals: number;
  /** Tokens for 10^18 wei, as a decimal number: "3200", "0.5". */
  rate_per_native_unit: string;
  markup_bps: number;
};

const WEI_PER_NATIVE_UNIT = 10n ** 18n;
const BPS = 10_000n;

/**
 * Converts a price in wei to the token's smallest units. The result is computed exactly and then rounded up, so that no job is
 * sold for less than its price. It may exceed uint256. `amountProblem` reports that.
 */
export function tokenAmount(priceWei: bigint, token: TokenRate): bigint {
  const [whole = "0", fraction = ""] = token.rate_per_native_unit.split(".");
  const rateScale = 10n ** BigInt(fraction.length);
  const rate = BigInt(whole + fraction);
  const units = priceWei * rate * (BPS + BigInt(token.markup_bps)) * 10n ** BigInt(token.decimals);
  return dividedUp(units, WEI_PER_NATIVE_UNIT * BPS * rateScale);
}

function dividedUp(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}

/** Says why no authorization can be signed for this amount. Undefined if one can. */
function amountProblem(amount: bigint): string | undefined {
  if (amount < 1n) return "is 0 units";
  return amount > UINT256_MAX ? "is more than 2^256-1 units" : undefined;
}

/** A rate of the token at `index` in x402.toml. For a changing rate, it is one of the configured bounds. */
export type RateAt = TokenRate & { index: number; bound?: "min_rate" | "max_rate" };

/** Reports prices whose amount in a token is zero, or too large for an authorization. */
export function priceProblems(jobs: Iterable<JobPrice>, rates: readonly RateAt[]) {
  return [...jobs].flatMap(({ serviceId, jobIndex, priceWei }) =>
    rates.flatMap(({ index, bound, ...token }) => {
      const problem = amountProblem(tokenAmount(priceWei, token));
      if (problem === undefined) return [];
      const message = `${problem} of accepted_tokens[${index}] in x402.toml${bound ? ` at its ${bound}` : ""}`;
      return [{ path: [String(serviceId), String(jobIndex)], message }];
    }),
  );
}

/** The price of a job in one token: `amount` is in the token's smallest units. */
type TokenPrice<Token> = { token: Token; amount: bigint };

/** Returns the current rate of a token, in tokens for 10^18 wei; undefined if it is not known. */
export type RateOf<Token> = (token: Token) => string | undefined;

/**
 * Returns the amount of a price in each token whose rate is known now. Leaves out a token if no authorization can be signed for
 * the amount.
 */
export function currentOffers<Token extends Omit<TokenRate, "rate_per_native_unit">>(
  priceWei: bigint,
  tokens: readonly Token[],
  rateOf: RateOf<Token>,
): TokenPrice<Token>[] {
  return tokens.flatMap((token) => {
    const rate = rateOf(token);
    if (rate === undefined) return [];
    const { decimals, markup_bps } = token;
    const amount = tokenAmount(priceWei, { decimals, markup_bps, rate_per_native_unit: rate });
    return amountProblem(amount) === undefined ? [{ token, amount }] : [];
  });
}

/** Data of a token that a payer needs to pay in it. */
type SettlementToken = { scheme: SchemeName; network: string; asset: string; symbol: string; payTo: string };

/** One way to pay for a job off chain: `amount` is in the token's smallest units. */
export type SettlementOption = {
  network: string;
  asset: string;
  symbol: string;
  amount: string;
  pay_to: string;
  scheme: SchemeName;
};

/** Converts an offer to the form of the gateway's price list and of a pricing engine's answer. */
export function toSettlementOption({ token, amount }: TokenPrice<SettlementToken>): SettlementOption {
  const { scheme, network, asset, symbol, payTo } = token;
  return { network, asset, symbol, amount: String(amount), pay_to: payTo, scheme };
}

/** Returns the URL at which a job is paid for. `endpoint` is the gateway's public URL. */
export function settlementEndpoint(endpoint: string, ids: { [Id in keyof JobIds]: number | bigint }): string {
  return `${endpoint}/x402/jobs/${jobKey(ids)}`;
}
