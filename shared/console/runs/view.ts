import { z } from "zod";
import { toIso } from "../../platform/time/iso.ts";
import { isoOrNull, isoTime } from "../view.ts";
import { RUN_STATES, type Run } from "./run.ts";

/** Fields that bulk operations of every kind have. */
export const RunHead = z.object({
  id: z.string(),
  kind: z.string(),
  /** `cancelling`: an operator has cancelled the operation, and it ends once its current steps are done. */
  state: z.enum([...RUN_STATES, "cancelling"]),
  by: z.string(),
  /**
   * The operator who resumed the cancelled or stopped operation. The audit log names this operator for all later steps.
   */
  resumed_by: z.string().nullable(),
  reason: z.string().nullable(),
  /** Text that describes the selection, such as the options of a command or `by id`. */
  selection: z.string(),
  begun_at: isoTime,
  ended_at: isoTime.nullable(),
  /** The error that stopped the operation; null if none did. */
  failure: z.object({ code: z.string(), reason: z.string() }).meta({ id: "BulkFailure" }).nullable(),
});

export function toHead(run: Run, selection: string): z.infer<typeof RunHead> {
  const { id, kind, by, resumedBy, state, isCancelling, at, endedAt, failure } = run;
  const { reason } = run.request as { reason?: string };
  const isOpen = state === "waiting" || state === "running";
  return {
    id,
    kind,
    state: isCancelling && isOpen ? "cancelling" : state,
    by,
    resumed_by: resumedBy ?? null,
    reason: reason ?? null,
    selection,
    begun_at: toIso(at),
    ended_at: isoOrNull(endedAt),
    failure: failure ?? null,
  };
}
