import type { FixedSource, LiveSource } from "../../../config/rate-source.ts";
import type { ReadRate } from "../source.ts";

/** Returns a rate from the configuration itself, which is never too old. */
export function fixedReader({ rate }: FixedSource): ReadRate {
  return async () => rate;
}

/** Returns the rate of a token with a fixed rate; undefined if the rate must be read. */
export function fixedRateOf({
  rate_per_native_unit,
}: {
  rate_per_native_unit: string | LiveSource;
}): string | undefined {
  return typeof rate_per_native_unit === "string" ? rate_per_native_unit : undefined;
}
