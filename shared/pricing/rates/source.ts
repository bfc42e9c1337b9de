import type { LiveSource, RateBounds } from "../../config/rate-source.ts";
import { AppError } from "../../platform/errors/app-error.ts";
import type { Clock } from "../../platform/time/clock.ts";

/** A token, and the settings that its rate depends on. */
export type RatedToken = RateBounds & {
  /** CAIP-2. */
  network: string;
  asset: string;
  symbol: string;
  /** Tokens for 10^18 wei, or the source of that number. */
  rate_per_native_unit: string | LiveSource;
  rate_refresh_secs: number;
  max_rate_age_secs: number;
};

/** A token whose rate must be read from a source. */
export type LiveToken = RatedToken & { rate_per_native_unit: LiveSource };

export function isLive<Token extends RatedToken>(token: Token): token is Token & LiveToken {
  return typeof token.rate_per_native_unit !== "string";
}

export type ReadOptions = {
  clock: Clock;
  /** Timeout of one request to a source. A read may make several requests, and ends after at most twice this time. */
  timeoutMs: number;
  /** Trusted certificates in PEM, which replace those of the system. */
  ca?: string | undefined;
};

/** Reads one source once. Resolves to a rate as decimal text, or throws `price.unavailable`. */
export type ReadRate = () => Promise<string>;

/** Makes the error of a source without a rate. The reason is for operators, and must not contain a URL or a credential. */
export function noRate(reason: string, cause?: unknown): AppError {
  return new AppError("price.unavailable", { reason, cause });
}

/**
 * The result of one read: a value, or the reason why it is missing. The reading of a median lists the readings of its sources in
 * `legs`.
 */
export type RateReading = {
  source: string;
  value?: string | undefined;
  reason?: string;
  legs?: readonly RateReading[];
};

/** Reads a rate once. Never rejects, and ends soon after the deadline of its slowest source. */
export type RateReader = () => Promise<RateReading>;
