import type { LoggedEvent } from "../../shared/dev/process.ts";
import type { PartLog } from "./part-log.ts";

/** What the runner did with the calls it was offered, by its own log. */
export type Offers = {
  /** How often each call was run to its end. */
  runs: ReadonlyMap<string, number>;
  /** Answered with what the first run had answered. */
  remembered: readonly LoggedEvent[];
  refused: readonly LoggedEvent[];
};

export function offersOf(log: PartLog, isAsked: (callId: string) => boolean = () => true): Offers {
  const of = (event: string) => log.named(event).filter(({ callId }) => isAsked(String(callId)));
  const finished = of("job.finished");
  const runs = new Map<string, number>();
  for (const { callId, replayed } of finished) {
    if (replayed !== true) runs.set(String(callId), (runs.get(String(callId)) ?? 0) + 1);
  }
  return {
    runs,
    remembered: finished.filter(({ replayed }) => replayed === true),
    refused: [...of("job.refused"), ...of("job.failed")],
  };
}
