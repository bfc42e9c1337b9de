import { Job } from "bullmq";
import { ORIGINS } from "../job-call/job-call.ts";
import { createAudit } from "./audit.ts";
import { createFailedRecords, type FailedRef } from "./call-record.ts";
import type { Operate, OperateDeps } from "./operate.ts";
import { JOB_NAME, openQueue } from "./protocol.ts";

/**
 * Lets a failed call wait again with all its attempts, under the same idempotency key. It can be replayed again later.
 *
 * First one script changes the record and the waiting time, only while the call is failed; then the job moves. A producer
 * may take the call as soon as it moves, and what it writes is then newer than what replay wrote; the other order could not
 * promise that. After a crash between the two the call is still listed as failed, and the next replay or discard finishes
 * the work. If two operators replay a call at once, one moves it and the other learns that it left.
 */
export function createReplay({ redis, clock, log, by }: OperateDeps): Operate {
  const records = createFailedRecords(redis);
  const audit = createAudit(redis, log);
  const queues = new Map(ORIGINS.map((origin) => [origin, openQueue(redis, origin)]));

  /** False if the call is no longer among the failed. */
  async function move({ id, origin }: FailedRef): Promise<boolean> {
    const queue = queues.get(origin);
    if (queue === undefined) return false;
    // A handle without data is enough: moving a job does not need its body.
    const job = new Job(queue, JOB_NAME, {}, {}, id);
    try {
      await job.retry("failed", { resetAttemptsMade: true, resetAttemptsStarted: true });
      return true;
    } catch (error) {
      if (isGone(error)) return false;
      throw error;
    }
  }

  return async function replay(failed, { selection, reason }) {
    if (!(await records.replaying(failed, clock()))) return "left";
    if (!(await move(failed))) return "left";
    await audit({ at: clock(), action: "replay", callId: failed.id, by, selection, reason });
    return "done";
  };
}

/** BullMQ's codes for "no such job" and "not among the failed". */
function isGone(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === -1 || code === -3;
}
