import type { MinimalJob } from "bullmq";
import { messageOf } from "../errors/app-error.ts";
import { failpoint } from "../lifecycle/failpoint.ts";
import type { Logger } from "../log/logger.ts";
import { delay } from "../time/clock.ts";
import {
  type Again,
  type Backends,
  type Fetched,
  isGone,
  isLockMissing,
  type QueueBackend,
} from "./backend.ts";
import { type FailedHead, HEAD_FIELD, toStored } from "./failed-head.ts";
import type { Held, Holds } from "./hold.ts";
import { JOB_OPTIONS } from "./protocol.ts";
import { callFields } from "./queue-name.ts";

/** What happens to a call that was taken from its queue. */
export type Verdict =
  /** The runner has it: it leaves the queue, and its record says INJECTED. */
  | { kind: "injected"; onRecorded: () => void }
  /** It has ended before: it leaves the queue, and its record stays as it is. */
  | { kind: "ended" }
  /** It waits and is taken again; the attempt counts. */
  | { kind: "retry"; afterMs: number; reason: string }
  /** It waits and is taken again; the attempt does not count. */
  | { kind: "postpone"; untilMs: number }
  /** It waits again at the head of its queue; the attempt does not count. */
  | { kind: "requeue" }
  /** It stays in the queue as failed, until an operator replays or discards it. `reason` starts with its error code. */
  | { kind: "fail"; reason: string; head?: FailedHead };

/** Whether the call leaves its queue for good, so that the next one may be taken in the same step. */
export function leaves({ kind }: Verdict): boolean {
  return kind === "injected" || kind === "ended";
}

/** Pause after Redis refused to write what became of a call. */
const RETRY_PAUSE_MS = 1000;

/** Writes what became of a call in hand. With `again`, resolves with the next call of its queue if there is one. */
export type Finish = (held: Held, verdict: Verdict, again: Again) => Promise<Fetched | undefined>;

/**
 * If Redis refuses the write, or the lock has run out and nobody has taken the call back, the write is repeated until the call is
 * no longer held: another worker may have it then.
 */
export function createFinish(backendOf: Backends, holds: Pick<Holds, "regain">, log: Logger): Finish {
  async function once(held: Held, verdict: Verdict, again: Again): Promise<Fetched | undefined> {
    const next = await apply(backendOf(held.queue), held, verdict, again);
    failpoint("producer.after_finish");
    if (verdict.kind === "injected") verdict.onRecorded();
    return next;
  }

  /** Whether the call is another worker's now, or an earlier try has ended it and only the reply was lost. */
  function isLost({ queue, id, hold }: Held, verdict: Verdict, error: unknown): boolean {
    const gone = isGone(error);
    // The record says INJECTED all the same.
    if (gone && verdict.kind === "injected") verdict.onRecorded();
    else log.warn(gone ? "call.lost" : "queue.error", { ...callFields(id, queue), reason: messageOf(error) });
    return gone || hold.lost;
  }

  return async function finish(held, verdict, again) {
    for (;;) {
      try {
        return await once(held, verdict, again);
      } catch (error) {
        if (isLockMissing(error) && (await holds.regain(held))) continue;
        if (isLost(held, verdict, error)) return undefined;
        await delay(RETRY_PAUSE_MS);
      }
    }
  };
}

/** The one place where a verdict becomes what BullMQ understands. */
async function apply(
  backend: QueueBackend,
  { id, token, windowMs, retried, crashes }: Held,
  verdict: Verdict,
  again: Again,
): Promise<Fetched | undefined> {
  const now = Date.now();
  // It has been tried, and this process goes on.
  const harmless = crashes > 0 ? { stc: 0 } : undefined;
  switch (verdict.kind) {
    case "injected":
      return backend.injected(id, token, { again, windowMs, retried });
    case "ended":
      return backend.ended(id, token, again);
    case "fail": {
      const job = { id, opts: { attempts: JOB_OPTIONS.attempts } } as MinimalJob;
      const fieldsToUpdate = verdict.head && { [HEAD_FIELD]: toStored(verdict.head) };
      await backend.moveToFailed(job, verdict.reason, false, token, false, fieldsToUpdate);
      return undefined;
    }
    case "retry": {
      const fieldsToUpdate = { failedReason: verdict.reason, ...harmless };
      await backend.moveToDelayed(id, now, verdict.afterMs, token, { fieldsToUpdate });
      return { kind: "none", recheckAt: now + verdict.afterMs };
    }
    case "postpone": {
      const waitMs = Math.max(0, verdict.untilMs - now);
      const options = { skipAttempt: true, ...(harmless && { fieldsToUpdate: harmless }) };
      await backend.moveToDelayed(id, now, waitMs, token, options);
      return { kind: "none", recheckAt: now + waitMs };
    }
    case "requeue":
      await backend.moveJobFromActiveToWait(id, token);
      return undefined;
  }
}
