import type { Bounds, LiveSource } from "../../config/rate-source.ts";

/** What of a token says what it is worth. */
export type RatedToken = Bounds & {
  /** CAIP-2. */
  network: string;
  asset: string;
  symbol: string;
  /** Tokens for 10^18 wei, or where that number comes from. */
  rate_per_native_unit: string | LiveSource;
  rate_refresh_secs: number;
  max_rate_age_secs: number;
};

export type LiveToken = RatedToken & { rate_per_native_unit: LiveSource };

export function isLive<Token extends RatedToken>(
  token: Token,
): token is Token & { rate_per_native_unit: LiveSource } {
  return typeof token.rate_per_native_unit !== "string";
}

/** The rate of a token that has a fixed one; undefined where it has to be asked for. */
export function fixedRateOf({ rate_per_native_unit }: { rate_per_native_unit: unknown }) {
  return typeof rate_per_native_unit === "string" ? rate_per_native_unit : undefined;
}
