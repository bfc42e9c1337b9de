import { logAudited } from "../redis/audit/audit.ts";
import { isGone, openBackends } from "./backend.ts";
import { noteOf } from "./call-log.ts";
import { createFailedRecords, type FailedRef } from "./call-record.ts";
import type { Operate, OperateDeps } from "./operate.ts";

/**
 * Lets a failed call wait again with all its attempts, under the same idempotency key. It can be replayed again later.
 *
 * First one script changes the record and the waiting time, only while the call is failed; then the job moves. A producer
 * may take the call as soon as it moves, and what it writes is then newer than what replay wrote; the other order could not
 * promise that. After a crash between the two the call is still listed as failed, and the next replay or discard finishes
 * the work. If two operators replay a call at once, one moves it and the other learns that it left. The first step writes the line of the
 * audit too.
 */
export function createReplay({ partition, clock, log, by }: OperateDeps): Operate {
  const records = createFailedRecords(partition);
  const backendOf = openBackends(partition);

  /** False if the call is no longer among the failed. */
  async function move({ id, queue }: FailedRef, note: string): Promise<boolean> {
    try {
      await backendOf(queue).replay(id, note);
      return true;
    } catch (error) {
      if (isGone(error)) return false;
      throw error;
    }
  }

  return async function replay(failed, why) {
    const act = { at: clock(), action: "replay", callId: failed.id, by, ...why } as const;
    if (!(await records.beginReplay(failed, act))) return "left";
    if (!(await move(failed, noteOf(by, why.reason)))) return "left";
    logAudited(log, act);
    return "done";
  };
}
