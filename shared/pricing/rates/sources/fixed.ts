import type { FixedSource, LiveSource } from "../../../config/rate-source.ts";
import type { ReadRate } from "../source.ts";

/** Creates the reader of a source whose rate is in the configuration itself. Such a rate is never too old. */
export function fixedReader({ rate }: FixedSource): ReadRate {
  return async () => rate;
}

/** Returns the rate of a token with a fixed rate. Undefined if its rate must be read from a source. */
export function fixedRateOf({
  rate_per_native_unit,
}: {
  rate_per_native_unit: string | LiveSource;
}): string | undefined {
  return typeof rate_per_native_unit === "string" ? rate_per_native_unit : undefined;
}
