import { ORIGINS } from "../job-call/job-call.ts";
import { createAudit } from "./audit.ts";
import { createCallRecords, createFailedRecords } from "./call-record.ts";
import type { Operate, OperateDeps } from "./operate.ts";
import { openQueue } from "./protocol.ts";

/**
 * Ends a failed call without running it, and deletes its body. If its sender repeats it within the window, the answer says
 * that it was discarded.
 *
 * First one script changes the record, only while the call is failed: a call that was replayed in between is left alone.
 * From then on the call cannot run, because replay refuses DISCARDED and a producer drops it, even if a replay that began
 * earlier still moves the job. So the job may be removed after that, also while a producer holds it. After a crash between
 * the two the call is still listed, and discarding it again removes it. The record begins to expire when the job is gone.
 */
export function createDiscard({ redis, clock, log, by }: OperateDeps): Operate {
  const failedRecords = createFailedRecords(redis);
  const records = createCallRecords(redis);
  const audit = createAudit(redis, log);
  const queues = new Map(ORIGINS.map((origin) => [origin, openQueue(redis, origin)]));

  return async function discard(failed, { selection, reason }) {
    if (!(await failedRecords.discarding(failed, clock()))) return "left";
    await queues.get(failed.origin)?.remove(failed.id, { removeChildren: false });
    await records.discarded(failed, clock());
    await audit({ at: clock(), action: "discard", callId: failed.id, by, selection, reason });
    return "done";
  };
}
