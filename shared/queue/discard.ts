import { logAudited } from "../redis/audit/audit.ts";
import { openBackends } from "./backend.ts";
import { createFailedRecords } from "./call-record.ts";
import type { Operate, OperateDeps } from "./operate.ts";

/**
 * Ends a failed call without running it, and deletes its body. If its sender repeats it within the window, the answer says
 * that it was discarded.
 *
 * First one script changes the record and writes the line of the audit, only while the call is failed: a call that was replayed in between is left alone.
 * From then on the call cannot run, because replay refuses DISCARDED and a producer drops it, even if a replay that began
 * earlier still moves the job. So the job may be removed after that, also while a producer holds it. After a crash between
 * the two the call is still listed, and discarding it again removes it. The record begins to expire when the job is gone.
 */
export function createDiscard({ partition, clock, log, by }: OperateDeps): Operate {
  const records = createFailedRecords(partition);
  const backendOf = openBackends(partition);

  return async function discard(failed, why) {
    const act = { at: clock(), action: "discard", callId: failed.id, by, ...why } as const;
    const begun = await records.beginDiscard(failed, act);
    if (begun === "left") return begun;
    await backendOf(failed.queue).remove(failed.id, false);
    await records.endDiscard(failed, clock());
    logAudited(log, act);
    return begun;
  };
}
