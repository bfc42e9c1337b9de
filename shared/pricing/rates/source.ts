import type { LiveSource, RateBounds } from "../../config/rate-source.ts";
import { AppError } from "../../platform/errors/app-error.ts";
import type { Clock } from "../../platform/time/clock.ts";

/** The settings of a token that say what it is worth. */
export type RatedToken = RateBounds & {
  /** CAIP-2. */
  network: string;
  asset: string;
  symbol: string;
  /** Tokens for 10^18 wei, or where that number comes from. */
  rate_per_native_unit: string | LiveSource;
  rate_refresh_secs: number;
  max_rate_age_secs: number;
};

/** A token whose rate has to be read. */
export type LiveToken = RatedToken & { rate_per_native_unit: LiveSource };

export function isLive<Token extends RatedToken>(token: Token): token is Token & LiveToken {
  return typeof token.rate_per_native_unit !== "string";
}

export type ReadOptions = {
  clock: Clock;
  /** Time for one exchange with a source; a whole read ends after twice that at the latest. */
  timeoutMs: number;
  /** Certificates to trust instead of the system's, in PEM. */
  ca?: string | undefined;
};

/** Reads one source once: resolves to a rate as decimal text, or throws `price.unavailable`. */
export type ReadRate = () => Promise<string>;

/** Why a source gives no rate. The reason is for operators; never put a URL or a credential in it. */
export function noRate(reason: string, cause?: unknown): AppError {
  return new AppError("price.unavailable", { reason, cause });
}

/** The result of one read: a value, or the reason why there is none. A median lists its sources as `legs`. */
export type RateReading = {
  source: string;
  value?: string | undefined;
  reason?: string;
  legs?: readonly RateReading[];
};

/** Reads a rate once; never rejects, and ends soon after the deadline of its slowest source. */
export type RateReader = () => Promise<RateReading>;
