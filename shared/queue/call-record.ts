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
 * The functions by which producers and operators read and write the record of a call. The states of a record are explained in
 * protocol.ts. Gateways write records in enqueue.ts. Every change is one atomic script. This file never retries a script.
 */

/** Identifies the call of a record. */
type CallRef = { id: string; queue: QueueName };

const FAIL = defineScript({
  source: recordFailureLua,
  keys: "record, since",
  args: "now, id, keepsResult, code, problem",
  constants: { RECORD },
  proof: "needed",
  reply: nothing,
});

/** Reason why a call failed for good, for the client that asks for its result. */
export type Failure = {
  /** True if the call's job keeps results; undefined if the call could not be read. */
  keepsResult: boolean | undefined;
  code: string;
  /** Title and detail from the runner's problem document, if it sent one. */
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

/**
 * Writes failed attempts and failures to records and logs, and reads records. Takes and injections are recorded elsewhere, in
 * the script that makes them (work.lua).
 */
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
    /**
     * Sets the record to FAILED, so the call no longer counts as waiting. The failure is stored for the client that asks for
     * the result.
     */
    async failed({ id, queue }: CallRef, now: number, failure?: Failure): Promise<void> {
      const { keepsResult, code, problem } = failure ?? { keepsResult: false, code: "" };
      const why = { keepsResult, code, problem: problem && JSON.stringify(problem) };
      await fail({ record: keys.record(id), since: keys.since(queue) }, { now, id, ...why });
    },

    /**
     * Adds a failed attempt to the log. With the first failed attempt, also stores the time `acceptedAt` as the start of the
     * call's wait. `take` is the number of the call's takes so far.
     */
    async attemptFailed(
      { take, ...call }: CallRef & { take: number },
      attempt: NewAttempt,
      acceptedAt: number,
    ): Promise<void> {
      const words = { attempt: wellFormedJson(attempt), take, acceptedAt, id: call.id };
      await recordAttempt(keysOf(call), words);
    },

    /**
     * Records that an attempt that has ended may have had an effect in the runner. The record keeps this, however the call
     * ends, so that an operator knows it before a refund.
     */
    async unsure({ take, ...call }: CallRef & { take: number }): Promise<void> {
      await unsure(keysOf(call), { take });
    },

    /** Returns the kept failed attempts, oldest first. */
    async attempts(id: string): Promise<FailedAttempt[]> {
      const { entries } = toCallLog(await redis.lrange(keys.attempts(id), 0, -1));
      return entries.filter((entry) => entry.kind === "attempt");
    },

    async state(id: string): Promise<RecordState | undefined> {
      return toState(await redis.hget(keys.record(id), "st"));
    },

    /** Returns the state, the time of the last change (unix ms), and the job if the record has it. */
    async brief(
      id: string,
    ): Promise<{ state: RecordState; at: number; job: string | undefined } | undefined> {
      const [st, at, jb] = await redis.hmget(keys.record(id), "st", "at", "jb");
      const state = toState(st);
      return state && { state, at: Number(at ?? 0), job: jb ?? undefined };
    },

    /** Returns when the call was forgotten (unix ms); undefined if it was not. */
    async forgottenAt(id: string): Promise<number | undefined> {
      const fg = await redis.hget(keys.record(id), "fg");
      return fg === null ? undefined : Number(fg);
    },
  };
}

/** Decodes a state. The reply is null if the call has no record. */
function toState(reply: unknown): RecordState | undefined {
  return (reply as RecordState | null) ?? undefined;
}

/** A failed call. `failedAt` (unix ms) distinguishes this failure from other failures of the same call. */
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

/** Names of DISCARD's replies, by index. */
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

/** Changes the record for an operator's decision about a failed call. */
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

  /** Builds the keys and arguments of the first step of a replay or discard. */
  function begun(call: FailedRef, act: AuditEntry<"acts">) {
    return [
      { ...keysOf(call), ...actKeys(keys, act) },
      { now: act.at, prefix, ...call, note: noteOf(act.by, act.reason), line: toLine(act) },
    ] as const;
  }

  return {
    /**
     * Changes the state FAILED to QUEUED, and stores the current time as the start of the call's wait. Also writes the line
     * of the audit log. Returns false, and changes nothing, if the call is no longer failed or is being discarded.
     */
    beginReplay: (call: FailedRef, act: AuditEntry<"acts">): Promise<boolean> => replay(...begun(call, act)),

    /**
     * Changes the state FAILED to DISCARDED. A producer that takes the call later then drops it. Also writes a line to the
     * audit log and to the call's log. Resolves with `left` if the call is no longer failed, or `finished` if another
     * discard made the change.
     */
    beginDiscard: async (call: FailedRef, act: AuditEntry<"acts">): Promise<Discarded> =>
      DISCARD_ANSWERS[await discard(...begun(call, act))],

    /**
     * Lets the record of a discarded call expire. This is the last step of a discard, after BullMQ's job of the call was
     * removed.
     */
    endDiscard: (call: CallRef, now: number): Promise<void> =>
      discarded(keysOf(call), { now, id: call.id, keepMs: RANDOM_ID_KEEP_MS }),
  };
}
