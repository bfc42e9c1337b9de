import type { FixedSource, LiveSource } from "../../../config/rate-source.ts";
import type { ReadRate } from "../source.ts";

/** A rate that the configuration itself states; it is never old. */
export function fixedReader({ rate }: FixedSource): ReadRate {
  return async () => rate;
}

/** The rate of a token that has a fixed one; undefined if it has to be read. */
export function fixedRateOf({
  rate_per_native_unit,
}: {
  rate_per_native_unit: string | LiveSource;
}): string | undefined {
  return typeof rate_per_native_unit === "string" ? rate_per_native_unit : undefined;
}
