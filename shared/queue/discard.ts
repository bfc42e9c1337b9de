import { ORIGINS } from "../job-call/job-call.ts";
import { createAudit } from "./audit.ts";
import { createCallRecords, createFailedRecords } from "./call-record.ts";
import { openQueue } from "./protocol.ts";
import type { Operate, OperateDeps } from "./replay.ts";

/**
 * Ends a failed call without running it; its body is deleted, and a repeat of the delivery within the window is told.
 *
 * The record comes first, in one script that holds only while the call is failed: a call that was replayed meanwhile is
 * left alone. From then on the call cannot run: a replay refuses what is DISCARDED, and a producer drops it, even where
 * a replay that had begun before still moves it. So the removal may come second, may be lost in a crash (the call is
 * then still listed, and discarding it again removes it), and need not care when a producer holds the job. The record
 * begins to expire when the job is gone.
 */
export function createDiscard({ redis, clock, log, by }: OperateDeps): Operate {
  const records = createFailedRecords(redis);
  const ends = createCallRecords(redis);
  const audit = createAudit(redis, log);
  const queues = new Map(ORIGINS.map((origin) => [origin, openQueue(redis, origin)]));

  return async function discard(failed, { selection, reason }) {
    if (!(await records.discarding(failed, clock()))) return "left";
    await queues.get(failed.origin)?.remove(failed.id, { removeChildren: false });
    await ends.discarded(failed, clock());
    await audit({ at: clock(), action: "discard", callId: failed.id, by, selection, reason });
    return "done";
  };
}
