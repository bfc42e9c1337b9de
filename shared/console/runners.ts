import { z } from "zod";
import type { Process } from "../telemetry/processes/process.ts";
import { type RunnerStatus, runnersOf } from "../telemetry/processes/runner-health.ts";
import { count, isoOrNull, isoTime } from "./view.ts";

/** A runner as all producers see it. */
export const RunnerView = z.object({
  name: z.string(),
  url: z.string(),
  /** The worst that one of them sees: `away`, `silent`, `failing`, `answers`, or `unasked` if none has sent it a call. */
  state: z.string(),
  /** Since when one of them finds it failing, silent or away. */
  since: isoTime.nullable(),
  /** Whether it may have begun before: the producer that saw it first has known nothing else since its start. */
  or_earlier: z.boolean(),
  /** What its calls meet. */
  reason: z.string().nullable(),
  /** When it has last answered any of them. */
  answered_at: isoTime.nullable(),
  /** How many producers have it in their configuration. */
  producers: count,
  /** For how many of them it is silent or away. */
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
