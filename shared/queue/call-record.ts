import { RECORD, type RecordState } from "../call/record-state.ts";
import type { ProblemText } from "../call/results/result.ts";
import { wellFormedJson } from "../platform/text/well-formed-json.ts";
import type { AuditEntry } from "../redis/audit/actions.ts";
import { AUDIT, actKeys, toLine } from "../redis/audit/audit.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { flag, nothing, oneOf } from "../redis/reply.ts";
import beginDiscardLua from "./begin-discard.lua";
import beginReplayLua from "./begin-replay.lua";
import { type FailedAttempt, LOG_KEPT, type NewAttempt, noteOf, toCallLog } from "./call-log.ts";
import endDiscardLua from "./end-discard.lua";
import { RANDOM_ID_KEEP_MS } from "./protocol.ts";
import type { QueueName } from "./queue-name.ts";
import recordAttemptLua from "./record-attempt.lua";
import recordFailureLua from "./record-failure.lua";
import recordUnsureLua from "./record-unsure.lua";

/*
 * The record of a call as producers and operators read and write it; its states are in protocol.ts, and gateways write it in
 * enqueue.ts. Every change is one atomic script; none is retried here.
 */

/** The call whose record is meant. */
type CallRef = { id: string; queue: QueueName };

const FAIL = defineScript({
  source: recordFailureLua,
  keys: "record, since",
  args: "now, id, keepsResult, code, problem",
  constants: { RECORD },
  proof: "needed",
  reply: nothing,
});

/** Why a call failed for good, for whoever asks for its result. */
export type Failure = {
  /** Undefined if the call could not be read. */
  keepsResult: boolean | undefined;
  code: string;
  /** What its runner said, if it sent a problem document. */
  problem?: ProblemText | undefined;
};

const RECORD_ATTEMPT = defineScript({
  source: recordAttemptLua,
  keys: "record, job, attempts, since, historyOff",
  args: "attempt, take, acceptedAt, id",
  constants: { RECORD, LOG_KEPT },
  proof: "expendable",
  reply: nothing,
});

const UNSURE = defineScript({
  source: recordUnsureLua,
  keys: "record, job, attempts, historyOff",
  args: "take",
  constants: { RECORD, LOG_KEPT },
  proof: "needed",
  reply: nothing,
});

export type CallRecords = ReturnType<typeof createCallRecords>;

/** What is written of failures. A take and an injection write the record in their own step (work.lua). */
export function createCallRecords({ redis, keys }: Partition) {
  const fail = FAIL.on(redis);
  const recordAttempt = RECORD_ATTEMPT.on(redis);
  const unsure = UNSURE.on(redis);

  const keysOf = ({ id, queue }: CallRef) => ({
    record: keys.record(id),
    job: keys.inQueue(queue, id),
    attempts: keys.attempts(id),
    since: keys.since(queue),
    historyOff: keys.historyOff,
  });

  return {
    /** The call failed for good. It no longer counts as waiting. Why is for whoever asks for its result. */
    async failed({ id, queue }: CallRef, now: number, failure?: Failure): Promise<void> {
      const { keepsResult, code, problem } = failure ?? { keepsResult: false, code: "" };
      const why = { keepsResult, code, problem: problem && JSON.stringify(problem) };
      await fail({ record: keys.record(id), since: keys.since(queue) }, { now, id, ...why });
    },

    /** Records a failed attempt and, if it is the first, since when the call has waited. `take` counts how often the call was taken. */
    async attemptFailed(
      { take, ...call }: CallRef & { take: number },
      attempt: NewAttempt,
      acceptedAt: number,
    ): Promise<void> {
      const words = { attempt: wellFormedJson(attempt), take, acceptedAt, id: call.id };
      await recordAttempt(keysOf(call), words);
    },

    /** An attempt has ended, or was given up, and may have had an effect. That stays so, whatever becomes of the call. */
    async unsure({ take, ...call }: CallRef & { take: number }): Promise<void> {
      await unsure(keysOf(call), { take });
    },

    /** The failed attempts that are kept, oldest first. */
    async attempts(id: string): Promise<FailedAttempt[]> {
      const { entries } = toCallLog(await redis.lrange(keys.attempts(id), 0, -1));
      return entries.filter((entry) => entry.kind === "attempt");
    },

    async state(id: string): Promise<RecordState | undefined> {
      return toState(await redis.hget(keys.record(id), "st"));
    },

    /** The state, when it came into it (unix ms), and its job if the record says so. */
    async brief(
      id: string,
    ): Promise<{ state: RecordState; at: number; job: string | undefined } | undefined> {
      const [st, at, jb] = await redis.hmget(keys.record(id), "st", "at", "jb");
      const state = toState(st);
      return state && { state, at: Number(at ?? 0), job: jb ?? undefined };
    },

    /** When an operator had the call forgotten (unix ms), if one had. */
    async forgottenAt(id: string): Promise<number | undefined> {
      const fg = await redis.hget(keys.record(id), "fg");
      return fg === null ? undefined : Number(fg);
    },
  };
}

/** Null if there is no record. */
function toState(reply: unknown): RecordState | undefined {
  return (reply as RecordState | null) ?? undefined;
}

/** A failed call. `failedAt` (unix ms) tells this failure from earlier and later ones of the same call. */
export type FailedRef = CallRef & { failedAt: number };

const REPLAY = defineScript({
  source: beginReplayLua,
  keys: "record, since, failed, acts, repeats, actCount",
  args: "now, id, failedAt, line",
  constants: { AUDIT, RECORD },
  proof: "needed",
  reply: flag,
});

const DISCARD = defineScript({
  source: beginDiscardLua,
  keys: "record, attempts, since, failed, historyOff, payment, discarded, acts, repeats, actCount",
  args: "now, id, failedAt, prefix, note, line",
  constants: { AUDIT, RECORD, LOG_KEPT },
  proof: "needed",
  reply: oneOf(0, 1, 2),
});

/** What DISCARD answers. */
const DISCARD_ANSWERS = ["left", "done", "finished"] as const;
type Discarded = (typeof DISCARD_ANSWERS)[number];

const DISCARDED = defineScript({
  source: endDiscardLua,
  keys: "record, attempts, since",
  args: "now, id, keepMs",
  constants: { RECORD },
  proof: "needed",
  reply: nothing,
});

/** The record as an operator's decision about a failed call changes it. */
export function createFailedRecords({ redis, keys, prefix }: Partition) {
  const replay = REPLAY.on(redis);
  const discard = DISCARD.on(redis);
  const discarded = DISCARDED.on(redis);

  function keysOf({ id, queue }: CallRef) {
    return {
      record: keys.record(id),
      attempts: keys.attempts(id),
      since: keys.since(queue),
      failed: keys.inQueue(queue, "failed"),
      historyOff: keys.historyOff,
      payment: keys.payment(id),
      discarded: keys.paymentsDiscarded,
    };
  }

  /** Keys and words of the change that an act begins with. */
  function begun(call: FailedRef, act: AuditEntry<"acts">) {
    return [
      { ...keysOf(call), ...actKeys(keys, act) },
      { now: act.at, prefix, ...call, note: noteOf(act.by, act.reason), line: toLine(act) },
    ] as const;
  }

  return {
    /**
     * FAILED becomes QUEUED, and the call waits from now on; with its line in the audit. Returns false, and changes nothing, if the call is
     * no longer failed or is being discarded.
     */
    beginReplay: (call: FailedRef, act: AuditEntry<"acts">): Promise<boolean> => replay(...begun(call, act)),

    /**
     * FAILED becomes DISCARDED, also for a producer that takes the call later; with its line in the audit and in the call's log. `left` if
     * the call is no longer failed, `finished` if another discard has made the change.
     */
    beginDiscard: async (call: FailedRef, act: AuditEntry<"acts">): Promise<Discarded> =>
      DISCARD_ANSWERS[await discard(...begun(call, act))],

    /** The job of a discarded call is gone: the window begins again. */
    endDiscard: (call: CallRef, now: number): Promise<void> =>
      discarded(keysOf(call), { now, id: call.id, keepMs: RANDOM_ID_KEEP_MS }),
  };
}
