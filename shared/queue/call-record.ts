import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { flag, nothing } from "../redis/reply.ts";
import type { ProblemText } from "../results/result.ts";
import { wellFormedJson } from "../text/well-formed-json.ts";
import beginDiscardLua from "./begin-discard.lua";
import beginReplayLua from "./begin-replay.lua";
import endDiscardLua from "./end-discard.lua";
import { ENDED_STATES, RANDOM_ID_KEEP_MS, type RecordState } from "./protocol.ts";
import type { QueueName } from "./queue-name.ts";
import recordAttemptLua from "./record-attempt.lua";
import recordFailureLua from "./record-failure.lua";
import recordUnsureLua from "./record-unsure.lua";

/*
 * The record of a call as producers and operators read and write it; its states are in protocol.ts, and gateways write it in
 * enqueue.ts. Every change is one atomic script; none is retried here.
 */

/** A failed attempt, as a producer writes it. */
type NewAttempt = { v: number; at: number; code: string; reason: string; worker: string };

/** The `n`-th failed attempt of a call since it was accepted, however often it was replayed. */
export type FailedAttempt = NewAttempt & { n: number };

/** The call whose record is meant. */
type CallRef = { id: string; queue: QueueName };

/** How many of a call's failed attempts are kept, the newest; while Redis is nearly full only one. */
const ATTEMPTS_KEPT = 5;

/** As is-ended.lua searches them. */
const ENDED = { ENDED_STATES: ` ${ENDED_STATES.join(" ")} ` };

const FAIL = defineScript({
  source: recordFailureLua,
  keys: "record, since",
  args: "now, id, keepsResult, code, problem",
  constants: ENDED,
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
  keys: "record, attempts, since, historyOff",
  args: "attempt, acceptedAt, id",
  constants: { ...ENDED, ATTEMPTS_KEPT },
  reply: nothing,
});

const UNSURE = defineScript({ source: recordUnsureLua, keys: "record", reply: nothing });

export type CallRecords = ReturnType<typeof createCallRecords>;

/** What is written of failures. A take and an injection write the record in their own step (work.lua). */
export function createCallRecords({ redis, keys }: Partition) {
  const fail = FAIL.on(redis);
  const recordAttempt = RECORD_ATTEMPT.on(redis);
  const unsure = UNSURE.on(redis);

  return {
    /** The call failed for good. It no longer counts as waiting. Why is for whoever asks for its result. */
    async failed({ id, queue }: CallRef, now: number, failure?: Failure): Promise<void> {
      const { keepsResult, code, problem } = failure ?? { keepsResult: false, code: "" };
      const why = { keepsResult, code, problem: problem && JSON.stringify(problem) };
      await fail({ record: keys.record(id), since: keys.since(queue) }, { now, id, ...why });
    },

    /** Records a failed attempt and, if it is the first, since when the call has waited. */
    async attemptFailed({ id, queue }: CallRef, attempt: NewAttempt, acceptedAt: number): Promise<void> {
      const own = { record: keys.record(id), attempts: keys.attempts(id), since: keys.since(queue) };
      const words = { attempt: wellFormedJson(attempt), acceptedAt, id };
      await recordAttempt({ ...own, historyOff: keys.historyOff }, words);
    },

    /** An attempt has ended, or was given up, and may have had an effect. That stays so, whatever becomes of the call. */
    async unsure(id: string): Promise<void> {
      await unsure({ record: keys.record(id) });
    },

    /** The failed attempts that are kept, oldest first. */
    async attempts(id: string): Promise<FailedAttempt[]> {
      return toAttempts(await redis.lrange(keys.attempts(id), 0, -1));
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

/** The attempts that are kept, as they are stored. Those of an earlier release have no number. */
export function toAttempts(lines: readonly string[]): FailedAttempt[] {
  const stored = lines.map((line) => JSON.parse(line) as NewAttempt & { n?: number });
  const newest = stored.at(-1)?.n ?? stored.length;
  return stored.map((attempt, i) => ({ ...attempt, n: newest - (stored.length - 1 - i) }));
}

/** Null if there is no record. */
function toState(reply: unknown): RecordState | undefined {
  return (reply as RecordState | null) ?? undefined;
}

/** A failed call. `failedAt` (unix ms) tells this failure from earlier and later ones of the same call. */
export type FailedRef = CallRef & { failedAt: number };

const REPLAY = defineScript({
  source: beginReplayLua,
  keys: "record, since, failed",
  args: "now, id, failedAt",
  constants: ENDED,
  reply: flag,
});

const DISCARD = defineScript({
  source: beginDiscardLua,
  keys: "record, since, failed",
  args: "now, id, failedAt, prefix",
  reply: flag,
});

const DISCARDED = defineScript({
  source: endDiscardLua,
  keys: "record, attempts, since",
  args: "now, id, keepMs",
  constants: ENDED,
  reply: nothing,
});

/** The record as an operator's decision about a failed call changes it. */
export function createFailedRecords({ redis, keys, prefix }: Partition) {
  const replay = REPLAY.on(redis);
  const discard = DISCARD.on(redis);
  const discarded = DISCARDED.on(redis);

  function keysOf({ id, queue }: CallRef) {
    return {
      ...{ record: keys.record(id), attempts: keys.attempts(id) },
      ...{ since: keys.since(queue), failed: keys.inQueue(queue, "failed") },
    };
  }

  return {
    /**
     * FAILED becomes QUEUED, and the call waits from now on. Returns false, and changes nothing, if the call is no longer
     * failed or is being discarded.
     */
    beginReplay: (call: FailedRef, now: number): Promise<boolean> => replay(keysOf(call), { now, ...call }),

    /** FAILED becomes DISCARDED, also for a producer that takes the call later. False if the call is no longer failed. */
    beginDiscard: (call: FailedRef, now: number): Promise<boolean> =>
      discard(keysOf(call), { now, prefix, ...call }),

    /** The job of a discarded call is gone: the window begins again. */
    endDiscard: (call: CallRef, now: number): Promise<void> =>
      discarded(keysOf(call), { now, id: call.id, keepMs: RANDOM_ID_KEEP_MS }),
  };
}
