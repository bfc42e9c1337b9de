/** What a token is worth, as x402.toml says it. */
export type TokenRate = {
  decimals: number;
  /** Tokens for 10^18 wei, a decimal number: "3200", "0.5". */
  rate_per_native_unit: string;
  markup_bps: number;
};

const WEI_PER_NATIVE_UNIT = 10n ** 18n;
const BPS = 10_000n;

/**
 * What a price in wei comes to in the token's smallest units: exact, then rounded up, so that nothing is sold for less
 * (design section 11). It may lie beyond uint256; whoever loads prices refuses that.
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
