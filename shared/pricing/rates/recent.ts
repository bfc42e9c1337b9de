import type { Clock } from "../../time/clock.ts";
import { noRate } from "./failure.ts";

/** How far a chain's clock may be ahead of ours. */
const SKEW_SECS = 60n;

type Limits = { what: string; maxAgeSecs: number; clock: Clock };

/** Throws `price.unavailable` for a moment of a chain, in Unix seconds, that is too old or in the future. */
export function assertRecent(moment: bigint, { what, maxAgeSecs, clock }: Limits): void {
  const now = nowSecs(clock);
  if (moment > now + SKEW_SECS) throw noRate(`${what} is ${moment - now} s in the future`);
  if (now - moment > BigInt(maxAgeSecs))
    throw noRate(`${what} is older than max_age_secs: ${now - moment} s`);
}

export function nowSecs(clock: Clock): bigint {
  return BigInt(Math.floor(clock() / 1000));
}
