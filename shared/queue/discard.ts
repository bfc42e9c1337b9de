import { logAudited } from "../redis/audit/audit.ts";
import { openBackends } from "./backend.ts";
import { createFailedRecords } from "./call-record.ts";
import type { Operate, OperateDeps } from "./operate.ts";

/**
 * Ends a failed call without running it, and deletes its body. If the sender repeats the delivery while the record is
 * kept, the answer says that the call was discarded.
 *
 * The first script changes the record and writes the line of the audit log. It does so only if the call is still failed, so a
 * call that another operator has replayed stays unchanged. Once the record is DISCARDED, the call cannot run. A replay that
 * begins then is refused. A replay that began earlier may still move BullMQ's job to the waiting calls, but a producer drops
 * a call with such a record.
 *
 * Because the call cannot run, the second script can remove BullMQ's job, even while a producer has the call. After a crash
 * between the two scripts the call is still listed as failed, and another discard removes it. The record starts to expire
 * when the job is gone.
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
