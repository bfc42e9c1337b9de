import { outsideOf } from "../../config/rate-source.ts";
import type { Clock } from "../../time/clock.ts";
import type { LiveToken } from "./rated-token.ts";
import type { SharedValue } from "./shared-value.ts";

/** `readAt` by Redis' time, `bornAt` by ours: both are when the read of the source began, or earlier. */
type Held = { value: string; readAt: number; bornAt: number };

/** The last good value of a rate, as this process knows it; it counts until it is too old. */
export function createHeldRate(token: LiveToken, clock: Clock) {
  const maxAgeMs = token.max_rate_age_secs * 1000;
  let held: Held | undefined;

  const ageMs = () => held && Math.max(0, clock() - held.bornAt);
  const current = () => ((ageMs() ?? Number.POSITIVE_INFINITY) <= maxAgeMs ? held?.value : undefined);

  return {
    current,
    ageMs,
    hold(value: string, at: Omit<Held, "value">): void {
      held = { value, ...at };
    },
    /** What the replicas share counts, unless Redis has lost a write since. */
    adopt({ known }: SharedValue, askedAt: number): void {
      if (known === undefined || outsideOf(known.value, token) !== undefined) return;
      if (held !== undefined && current() !== undefined && known.readAt < held.readAt) return;
      held = { value: known.value, readAt: known.readAt, bornAt: askedAt - known.ageMs };
    },
  };
}
