import type { Bounds, LiveSource } from "../../config/rate-source.ts";
import { AppError } from "../../errors/app-error.ts";
import type { Clock } from "../../time/clock.ts";

export type ReadOptions = {
  clock: Clock;
  /** Time for one exchange with a source; a read ends after twice that at the latest, whoever else is slow. */
  timeoutMs: number;
  /** Certificates to trust instead of the system's, in PEM. */
  ca?: string | undefined;
};

/** Reads one source once: a rate as decimal text, or it throws `price.unavailable`. */
export type ReadRate = () => Promise<string>;

/** Why a source gives no rate. The reason is for operators: it has no URL and no credential in it. */
export function noRate(reason: string, cause?: unknown): AppError {
  return new AppError("price.unavailable", { reason, cause });
}

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
