import { logAudited } from "../redis/audit/audit.ts";
import { isGone, openBackends } from "./backend.ts";
import { noteOf } from "./call-log.ts";
import { createFailedRecords, type FailedRef } from "./call-record.ts";
import type { Operate, OperateDeps } from "./operate.ts";

/**
 * Moves a failed call back to the waiting calls, under the same idempotency key. The call gets its full number of attempts
 * again. It can be replayed again later.
 *
 * The first script changes the record and the waiting time, only if the call is still failed. It also writes the line of the
 * audit log. The second script moves BullMQ's job. A producer can take the call only once the job has moved, so all its
 * writes to the record come after those of the replay. In the opposite order, the replay could overwrite the producer's
 * writes.
 *
 * After a crash between the two scripts the call is still listed as failed, and the next replay or discard completes the
 * work. If two operators replay a call at the same time, one moves it and the other gets `left`.
 */
export function createReplay({ partition, clock, log, by }: OperateDeps): Operate {
  const records = createFailedRecords(partition);
  const backendOf = openBackends(partition);

  /** Moves BullMQ's job of the call. Returns false if the call is no longer failed. */
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
