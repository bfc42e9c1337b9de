import type { MinimalJob } from "bullmq";
import type { ResultMark } from "../../../shared/call/results/answer.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import {
  AfterRefund,
  type Backends,
  type Fetched,
  type FetchNext,
  isGone,
  isLockMissing,
  type QueueBackend,
} from "../../../shared/queue/backend.ts";
import type { CallRecords } from "../../../shared/queue/call-record.ts";
import { PREPARED_FIELD, type PreparedCallback } from "../../../shared/queue/callbacks.ts";
import { type FailedHead, HEAD_FIELD } from "../../../shared/queue/failed-head.ts";
import { JOB_OPTIONS } from "../../../shared/queue/protocol.ts";
import { callFields } from "../../../shared/queue/queue-name.ts";
import type { Held, Holds } from "./hold.ts";

/** What happens to a call that was taken from its queue. */
export type Verdict = Outcome & {
  /** The runner may have got the call, and nobody knows what it did with it. */
  unsure?: boolean;
};

type Outcome =
  /** The runner has it: it leaves the queue, and its record says INJECTED, and what is known of its result if its job keeps it. */
  | {
      kind: "injected";
      onRecorded: () => void;
      result?: ResultMark | undefined;
      callback?: PreparedCallback | undefined;
      /** How the whole call is kept (shared/call/kept). */
      kept?: Buffer | undefined;
    }
  /** It has ended before: it leaves the queue, and its record stays as it is. */
  | { kind: "ended" }
  /** It waits and is taken again; the attempt counts. */
  | { kind: "retry"; afterMs: number; reason: string }
  /** It waits and is taken again; the attempt does not count. */
  | { kind: "postpone"; afterMs: number }
  /** It waits again at the head of its queue; the attempt does not count. */
  | { kind: "requeue" }
  /** It stays in the queue as failed, until an operator replays or discards it. `reason` starts with its error code. */
  | { kind: "fail"; reason: string; head?: FailedHead; callback?: PreparedCallback | undefined };

/** Whether the call leaves its queue for good, so that the next one may be taken in the same step. */
export function leaves({ kind }: Verdict): boolean {
  return kind === "injected" || kind === "ended";
}

/** Pause after Redis refused to write what became of a call. */
const RETRY_PAUSE_MS = 1000;
/** BullMQ's parameter for the time. The script takes that of Redis (delay.lua). */
const BY_REDIS = 0;

/** Writes what became of a call in hand. With `fetchNext`, resolves with what the fetch of the next call found. */
export type Finish = (held: Held, verdict: Verdict, fetchNext: FetchNext) => Promise<Fetched | undefined>;

type FinishDeps = {
  backendOf: Backends;
  holds: Pick<Holds, "regain">;
  records: Pick<CallRecords, "unsure">;
  /** Is told in how many ms a call that waits is due. */
  dueIn: (ms: number) => void;
  /** Looks for a next call that Redis may have given to this worker, although no reply said so. */
  lookForTaken: () => void;
  log: Logger;
};

/**
 * If Redis refuses the write, or the lock has run out and nobody has taken the call back, the write is repeated until the call is
 * no longer held: another worker may have it then.
 */
export function createFinish({ backendOf, holds, records, dueIn, lookForTaken, log }: FinishDeps): Finish {
  async function once(held: Held, verdict: Verdict, fetchNext: FetchNext): Promise<Fetched | undefined> {
    // Before the call can be taken again, or be found among the failed.
    if (verdict.unsure) await records.unsure(held);
    const fetched = await apply(backendOf(held.queue), held, verdict, fetchNext);
    failpoint("producer.after_finish");
    if (verdict.kind === "injected") verdict.onRecorded();
    return fetched;
  }

  /** The one place where a verdict becomes what BullMQ understands. */
  async function apply(
    backend: QueueBackend,
    { id, token, windowMs, take, crashes }: Held,
    verdict: Verdict,
    fetchNext: FetchNext,
  ): Promise<Fetched | undefined> {
    // It has been tried, and this process goes on.
    const harmless = crashes > 0 ? { stc: 0 } : undefined;
    const wait = async (ms: number, options: { fieldsToUpdate?: object; skipAttempt?: boolean }) => {
      await backend.moveToDelayed(id, BY_REDIS, ms, token, options);
      dueIn(ms);
      return undefined;
    };
    switch (verdict.kind) {
      case "injected":
        return backend.injected(id, token, { ...verdict, fetchNext, windowMs, retried: take > 1 });
      case "ended":
        return backend.ended(id, token, fetchNext);
      case "fail": {
        const job = { id, opts: { attempts: JOB_OPTIONS.attempts } } as MinimalJob;
        const { head, callback } = verdict;
        const fields = {
          ...(head && { [HEAD_FIELD]: JSON.stringify(head) }),
          ...(callback !== undefined && { [PREPARED_FIELD]: callback }),
        };
        const fieldsToUpdate = Object.keys(fields).length > 0 ? fields : undefined;
        await backend.moveToFailed(job, verdict.reason, false, token, false, fieldsToUpdate);
        return undefined;
      }
      case "retry":
        return wait(verdict.afterMs, { fieldsToUpdate: { failedReason: verdict.reason, ...harmless } });
      case "postpone":
        return wait(verdict.afterMs, {
          skipAttempt: true,
          ...(harmless && { fieldsToUpdate: harmless }),
        });
      case "requeue":
        await backend.moveJobFromActiveToWait(id, token);
        return undefined;
    }
  }

  /** Whether the call is another worker's now, or an earlier try has ended it and only the reply was lost. */
  function isLost({ queue, id, hold }: Held, verdict: Verdict, error: unknown): boolean {
    if (error instanceof AfterRefund) {
      log.error("call.injected_after_refund", { ...callFields(id, queue), reason: error.message });
      return true;
    }
    const gone = isGone(error);
    // The record says INJECTED all the same.
    if (gone && verdict.kind === "injected") verdict.onRecorded();
    else
      log.warn(gone ? "call.lease_lost" : "queue.error", {
        ...callFields(id, queue),
        reason: messageOf(error),
      });
    return gone || hold.lost;
  }

  return async function finish(held, verdict, fetchNext) {
    for (;;) {
      try {
        return await once(held, verdict, fetchNext);
      } catch (error) {
        lookForTaken();
        if (isLockMissing(error) && (await holds.regain(held))) continue;
        if (isLost(held, verdict, error)) return undefined;
        await delay(RETRY_PAUSE_MS);
      }
    }
  };
}
