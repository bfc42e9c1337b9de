import { logAudited } from "../redis/audit/audit.ts";
import { openBackends } from "./backend.ts";
import { createFailedRecords } from "./call-record.ts";
import type { Operate, OperateDeps } from "./operate.ts";

/**
 * Ends a failed call without running it, and deletes its body. If the sender repeats the delivery while the record is
 * kept, the answer says that the call was discarded.
 *
 * The first script changes the record and writes the line of the audit log. It does so only if the call is still failed:
 * a call that another operator has replayed stays unchanged. After that the call cannot run. A replay refuses DISCARDED
 * calls, and a producer drops them, even if a replay that began earlier still moves BullMQ's job.
 *
 * So the second script can remove BullMQ's job, even while a producer has the call. After a crash between the two
 * scripts the call is still listed as failed, and another discard removes it. The record starts to expire when the job
 * is gone.
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
