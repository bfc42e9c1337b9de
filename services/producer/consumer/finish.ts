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

/** Decision on a call that was taken: how it ends, or when it is taken again. A `Deliver` returns it, a `Finish` writes it. */
export type Verdict = Outcome & {
  /** True if the runner may have got the call, and the effect is unknown. */
  unsure?: boolean;
};

type Outcome =
  /**
   * The runner accepted the call. The call leaves the queue, and its record becomes INJECTED. If the job keeps results, the
   * record also gets the state of the result.
   */
  | {
      kind: "injected";
      onRecorded: () => void;
      result?: ResultMark | undefined;
      callback?: PreparedCallback | undefined;
      /** Settings for keeping the whole call (shared/call/kept); undefined if the call is not kept. */
      kept?: Buffer | undefined;
    }
  /** The call had already ended. It leaves the queue, and its record stays unchanged. */
  | { kind: "ended" }
  /** The call waits and is taken again; the attempt counts. */
  | { kind: "retry"; afterMs: number; reason: string }
  /** The call waits and is taken again; the attempt does not count. */
  | { kind: "postpone"; afterMs: number }
  /** The call returns to the head of its queue; the attempt does not count. */
  | { kind: "requeue" }
  /** The call stays in the queue as failed, until an operator replays or discards it. `reason` starts with its error code. */
  | { kind: "fail"; reason: string; head?: FailedHead; callback?: PreparedCallback | undefined };

/**
 * Returns whether the call leaves its queue for good. Only then can the step that writes the verdict also take the next call
 * of the queue.
 */
export function leaves({ kind }: Verdict): boolean {
  return kind === "injected" || kind === "ended";
}

/** Pause after Redis refused to write the outcome of a call. */
const RETRY_PAUSE_MS = 1000;
/**
 * Argument for BullMQ's parameter of the current time. It has no effect, because our script uses the time of Redis
 * (delay.lua).
 */
const BY_REDIS = 0;

/** Writes the verdict on a call in flight to Redis. With `fetchNext`, resolves with the result of fetching the next call. */
export type Finish = (held: Held, verdict: Verdict, fetchNext: FetchNext) => Promise<Fetched | undefined>;

type FinishDeps = {
  backendOf: Backends;
  holds: Pick<Holds, "regain">;
  records: Pick<CallRecords, "unsure">;
  /** Called with the ms until a delayed call is due. */
  dueIn: (ms: number) => void;
  /**
   * Starts a search for calls that Redis may have taken for this worker although the worker did not get them (lost-takes.ts).
   */
  lookForTaken: () => void;
  log: Logger;
};

/**
 * Creates the function that writes verdicts. The write is repeated if Redis refuses it. It is also repeated if the call's
 * lock in Redis has expired, but no worker has taken the call back. The repeats end once this worker gives the call up
 * (hold.ts), because another worker may have it then.
 */
export function createFinish({ backendOf, holds, records, dueIn, lookForTaken, log }: FinishDeps): Finish {
  async function once(held: Held, verdict: Verdict, fetchNext: FetchNext): Promise<Fetched | undefined> {
    // `unsure` is recorded first, because another worker can take the call, or an operator can discard it, once the outcome
    // is written.
    if (verdict.unsure) await records.unsure(held);
    const fetched = await apply(backendOf(held.queue), held, verdict, fetchNext);
    failpoint("producer.after_finish");
    if (verdict.kind === "injected") verdict.onRecorded();
    return fetched;
  }

  /** Translates a verdict into the commands of the queue's backend. */
  async function apply(
    backend: QueueBackend,
    { id, token, windowMs, take, crashes }: Held,
    verdict: Verdict,
    fetchNext: FetchNext,
  ): Promise<Fetched | undefined> {
    // Number of crashes to store: 0, because the call was tried and this process still runs, so the call is not the cause.
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

  /**
   * Returns whether the verdict must not be written again: another worker has the call, or an earlier write succeeded and
   * only its reply was lost.
   */
  function isLost({ queue, id, hold }: Held, verdict: Verdict, error: unknown): boolean {
    if (error instanceof AfterRefund) {
      log.error("call.injected_after_refund", { ...callFields(id, queue), reason: error.message });
      return true;
    }
    const gone = isGone(error);
    // A 2xx is recorded even if the call has left this worker, so the call counts as injected.
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
