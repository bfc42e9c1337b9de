import { Job } from "bullmq";
import { ORIGINS } from "../job-call/job-call.ts";
import type { Logger } from "../log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import type { Clock } from "../time/clock.ts";
import { createAudit } from "./audit.ts";
import { createFailedRecords, type FailedRef } from "./call-record.ts";
import { JOB_NAME, openQueue } from "./protocol.ts";

/** What replay and discard need; `by` is who operates. */
export type OperateDeps = { redis: Redis; clock: Clock; log: Logger; by: string };

/** `left`: somebody else replayed or discarded it meanwhile; nothing was done. */
type Operated = "done" | "left";

/** For the audit: how the call was chosen and, if said, why. */
export type Why = { selection: string; reason?: string | undefined };

export type Operate = (failed: FailedRef, why: Why) => Promise<Operated>;

/**
 * Lets a failed call wait again with all its attempts, under the same key; it can be replayed again later.
 *
 * The record and the waiting time come first, in one script that holds only while the call is failed, the move second.
 * A producer may take the call the instant it moves: whatever it writes then is newer than anything written here, which
 * the other order could not promise. A crash between the two leaves the call failed and listed, so that the next replay
 * or discard puts it right. Of two operators at once, one moves the call and the other is told that it left.
 */
export function createReplay({ redis, clock, log, by }: OperateDeps): Operate {
  const records = createFailedRecords(redis);
  const audit = createAudit(redis, log);
  const queues = new Map(ORIGINS.map((origin) => [origin, openQueue(redis, origin)]));

  async function move({ id, origin }: FailedRef): Promise<boolean> {
    const queue = queues.get(origin);
    if (queue === undefined) return false;
    // The job as a handle only: its body does not have to be read to move it.
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
