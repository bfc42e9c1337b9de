import type { JobPrice } from "../config/job-pricing-toml.ts";
import type { AcceptedToken } from "../config/x402-toml.ts";
import { toDecimal } from "../platform/text/decimal.ts";
import { tokenAmount } from "../pricing/prices.ts";

/**
 * The cost of a job in one token. At a fixed rate, `min` and `max` are equal. Otherwise they are the costs at the rate's bounds,
 * and undefined for a bound that is not configured.
 */
type Range = { token: AcceptedToken; min: bigint | undefined; max: bigint | undefined };

function rangeOf(priceWei: bigint, token: AcceptedToken): Range {
  const { rate_per_native_unit: rate, min_rate, max_rate, decimals, markup_bps } = token;
  const amountAt = (text: string | undefined) =>
    text === undefined
      ? undefined
      : tokenAmount(priceWei, { decimals, markup_bps, rate_per_native_unit: text });
  if (typeof rate === "string") return { token, min: amountAt(rate), max: amountAt(rate) };
  return { token, min: amountAt(min_rate), max: amountAt(max_rate) };
}

/** The currency whose value a token has, by the token's symbol. Readers of a price without a currency assume dollars. */
const CURRENCIES: Readonly<Record<string, string>> = {
  ...{ USDC: "USD", USDT: "USD", DAI: "USD", USDS: "USD", PYUSD: "USD", USDBC: "USD" },
  EURC: "EUR",
};

const currencyOf = ({ symbol }: AcceptedToken): string | undefined => CURRENCIES[symbol.toUpperCase()];

/**
 * Makes the `x-payment-info` of a job, for two kinds of readers: `price` and `protocols` for AgentCash and x402scan, and `offers`
 * for programs that follow draft-payment-discovery. It contains only data that stays right when a rate changes. This is the
 * amount at a fixed rate, or the amounts at the bounds of a changing rate.
 */
export function toPaymentInfo({ priceWei }: Pick<JobPrice, "priceWei">, tokens: readonly AcceptedToken[]) {
  const ranges = tokens.map((token) => rangeOf(priceWei, token));
  return { price: toPrice(ranges), protocols: [{ x402: {} }], offers: ranges.map(toOffer) };
}

/** Returns the price in one currency: that of the first token whose currency is known. Tokens of other currencies are ignored. */
function toPrice(ranges: readonly Range[]) {
  const currency = ranges.map(({ token }) => currencyOf(token)).find((each) => each !== undefined);
  const own = currency === undefined ? [] : ranges.filter(({ token }) => currencyOf(token) === currency);
  const [min, max] = [boundOf(own, "min"), boundOf(own, "max")];
  if (currency !== undefined && min !== undefined && min === max)
    return { mode: "fixed", currency, amount: min };
  return {
    mode: "dynamic",
    ...(currency !== undefined && { currency }),
    ...(min !== undefined && { min }),
    ...(max !== undefined && { max }),
  };
}

/** Returns the lowest or highest amount that a payer pays in any of the tokens. Undefined if a token has no such bound. */
function boundOf(ranges: readonly Range[], bound: "min" | "max"): string | undefined {
  const scale = Math.max(0, ...ranges.map(({ token }) => token.decimals));
  const amounts = ranges.map(({ token, [bound]: units }) =>
    units === undefined ? undefined : units * 10n ** BigInt(scale - token.decimals),
  );
  const found = amounts.reduce((a, b) => {
    if (a === undefined || b === undefined) return undefined;
    return b < a === (bound === "min") ? b : a;
  }, amounts[0]);
  return found === undefined ? undefined : toDecimal({ numerator: found, denominator: 10n ** BigInt(scale) });
}

function toOffer({ token, min, max }: Range) {
  const { symbol, network, asset, decimals } = token;
  const inTokens = (units: bigint) => toDecimal({ numerator: units, denominator: 10n ** BigInt(decimals) });
  const isFixed = min !== undefined && min === max;
  return {
    intent: "charge",
    method: "x402",
    amount: isFixed ? String(min) : null,
    currency: asset,
    description: isFixed
      ? `${inTokens(min)} ${symbol} on ${network}`
      : `${symbol} on ${network}, at the current rate${boundsText(min, max, inTokens)}`,
  };
}

function boundsText(
  min: bigint | undefined,
  max: bigint | undefined,
  inTokens: (units: bigint) => string,
): string {
  if (min !== undefined && max !== undefined) return `: from ${inTokens(min)} to ${inTokens(max)}`;
  if (min !== undefined) return `: at least ${inTokens(min)}`;
  return max === undefined ? "" : `: at most ${inTokens(max)}`;
}
