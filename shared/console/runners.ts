import { z } from "zod";
import type { Process } from "../telemetry/processes/process.ts";
import { type RunnerStatus, runnersOf } from "../telemetry/processes/runner-health.ts";
import { count, isoOrNull, isoTime } from "./view.ts";

/** A runner as all producers see it. */
export const RunnerView = z.object({
  name: z.string(),
  url: z.string(),
  /**
   * The worst state that any producer sees. From worst to best: `away` (gets no calls until a probe reaches it),
   * `silent` (no answer to the newest call), `failing` (a 5xx), `answers`, and `unasked` (no call yet).
   */
  state: z.string(),
  /** Start of this state, if it is `failing`, `silent` or `away`. */
  since: isoTime.nullable(),
  /**
   * Whether the state may have begun before `since`, because the producer has seen no other state since its own start.
   */
  or_earlier: z.boolean(),
  /** Error that calls to the runner got; null without an error. */
  reason: z.string().nullable(),
  /** Time of the runner's last answer to any producer. */
  answered_at: isoTime.nullable(),
  /** Number of producers that have the runner in their configuration. */
  producers: count,
  /** Number of producers for which the runner is silent or away. */
  unanswered: count,
});
export type RunnerView = z.infer<typeof RunnerView>;

export function runnerViews(processes: readonly Process[]): RunnerView[] {
  return runnersOf(processes).map(toView);
}

function toView({ since, orEarlier = false, reason, answeredAt, ...rest }: RunnerStatus): RunnerView {
  return {
    ...rest,
    since: isoOrNull(since),
    or_earlier: orEarlier,
    reason: reason ?? null,
    answered_at: isoOrNull(answeredAt),
  };
}
