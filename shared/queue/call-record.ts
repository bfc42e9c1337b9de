import type { Partition } from "../redis/partition.ts";
import { EVEN_IF_FULL, type Script, script } from "../redis/script.ts";
import { PLAIN_RECORD, unlessNewer } from "../redis/version.ts";
import { DROP_RESULT, tellChange } from "../results/keep-result.ts";
import type { ProblemText } from "../results/result.ts";
import { ENDED_STATES, RANDOM_ID_KEEP_MS, type RecordState } from "./protocol.ts";
import type { QueueName } from "./queue-name.ts";

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

/** Lua: whether the state in `st` is one that no attempt changes. */
const IS_ENDED = ENDED_STATES.map((state) => `st == '${state}'`).join(" or ");

/** A worker that paused and lost its call may write too late: a call that has ended stays ended. */
const UNLESS_ENDED = `${EVEN_IF_FULL}${unlessNewer("record")}
local st = redis.call('HGET', KEYS[1], 'st')
if ${IS_ENDED} then return end`;

/**
 * KEYS record, since. ARGV now, id, whether its job keeps results (1, 0, or nothing if that is not known), code, problem or nothing. Why it failed is noted if the job keeps results, and of a paid call of which that is not known; the record appears for it.
 */
const FAIL = `${UNLESS_ENDED}
local tells = ARGV[3] == '1' or (ARGV[3] == '' and redis.call('HEXISTS', KEYS[1], 'rt') == 1)
if st or tells then
  redis.call('HSET', KEYS[1], 'st', 'FAILED', 'at', ARGV[1])
  redis.call('PERSIST', KEYS[1])
  ${tellChange("ARGV[2]")}
end
if not st and tells then redis.call('HSET', KEYS[1], 'v', ${PLAIN_RECORD}) end
if tells then
  redis.call('HSET', KEYS[1], 'fc', ARGV[4])
  if ARGV[5] == '' then redis.call('HDEL', KEYS[1], 'fp') else redis.call('HSET', KEYS[1], 'fp', ARGV[5]) end
end
redis.call('ZREM', KEYS[2], ARGV[2])`;

/** Why a call failed for good, for whoever asks for its result. */
export type Failure = {
  /** Undefined if the call could not be read. */
  keepsResult: boolean | undefined;
  code: string;
  /** What its runner said, if it sent a problem document. */
  problem?: ProblemText | undefined;
};

/**
 * KEYS record, attempts, since. ARGV now, id, ms to keep it without a window. The window begins again; unless the call was answered 2xx,
 * or its refund exported, since its discard began.
 */
const DISCARDED = `${EVEN_IF_FULL}${unlessNewer("record")}
local st = redis.call('HGET', KEYS[1], 'st')
if st ~= 'DISCARDED' and (${IS_ENDED}) then return end
local w = redis.call('HGET', KEYS[1], 'w') or ARGV[3]
redis.call('HSET', KEYS[1], 'st', 'DISCARDED', 'at', ARGV[1], 'v', ${PLAIN_RECORD})
redis.call('PEXPIRE', KEYS[1], w)
redis.call('PEXPIRE', KEYS[2], w)
redis.call('ZREM', KEYS[3], ARGV[2])`;

/**
 * KEYS record, attempts, since, history-off. ARGV attempt, attempts kept, accepted at, id. The newest attempt knows how many there were;
 * earlier releases numbered none, and kept as good as all.
 */
const RECORD_ATTEMPT = `${UNLESS_ENDED}
local newest = redis.call('LINDEX', KEYS[2], -1)
local before = newest and (cjson.decode(newest).n or redis.call('LLEN', KEYS[2])) or 0
redis.call('RPUSH', KEYS[2], '{"n":' .. string.format('%.0f', before + 1) .. ',' .. string.sub(ARGV[1], 2))
redis.call('LTRIM', KEYS[2], redis.call('EXISTS', KEYS[4]) == 1 and -1 or -tonumber(ARGV[2]), -1)
redis.call('PERSIST', KEYS[2])
redis.call('ZADD', KEYS[3], 'NX', ARGV[3], ARGV[4])
${tellChange("ARGV[4]")}`;

/** KEYS record. A call without a record is remembered nowhere, and nobody paid for it. */
const UNSURE = `${EVEN_IF_FULL}
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'unsure', 1) end`;

export type CallRecords = ReturnType<typeof createCallRecords>;

/** What is written of failures. A take and an injection write the record in their own step (scripts.ts). */
export function createCallRecords({ redis, keys }: Partition) {
  const fail = script(redis, FAIL);
  const recordAttempt = script(redis, RECORD_ATTEMPT);
  const unsure = script(redis, UNSURE);

  return {
    /** The call failed for good. It no longer counts as waiting. Why is for whoever asks for its result. */
    async failed({ id, queue }: CallRef, now: number, failure?: Failure): Promise<void> {
      const { keepsResult, code, problem } = failure ?? { keepsResult: false, code: "" };
      const keeps = keepsResult === undefined ? "" : Number(keepsResult);
      const why = [keeps, code, problem === undefined ? "" : JSON.stringify(problem)];
      await fail([keys.record(id), keys.since(queue)], [now, id, ...why]);
    },

    /** Records a failed attempt and, if it is the first, since when the call has waited. */
    async attemptFailed({ id, queue }: CallRef, attempt: NewAttempt, acceptedAt: number): Promise<void> {
      const args = [JSON.stringify(attempt), ATTEMPTS_KEPT, acceptedAt, id];
      await recordAttempt([keys.record(id), keys.attempts(id), keys.since(queue), keys.historyOff], args);
    },

    /** An attempt has ended, or was given up, and may have had an effect. That stays so, whatever becomes of the call. */
    async unsure(id: string): Promise<void> {
      await unsure([keys.record(id)], []);
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

/**
 * Both ways out of FAILED apply only while the call is failed, and only to the failure that the operator saw. Check and
 * change are one script, so that nothing comes between them. KEYS record, since, failed. ARGV state, now, id, failed at, prefix.
 * Answer 1 if the change was made.
 */
const WHILE_FAILED = `${EVEN_IF_FULL}${unlessNewer("record")}
local score = redis.call('ZSCORE', KEYS[3], ARGV[3])
if not score or tonumber(score) ~= tonumber(ARGV[4]) then return 0 end`;

const REPLAY = `${WHILE_FAILED}
local st = redis.call('HGET', KEYS[1], 'st')
if st ~= 'INJECTED' and (${IS_ENDED}) then return 0 end
if st == 'FAILED' then
  redis.call('HSET', KEYS[1], 'st', ARGV[1], 'at', ARGV[2])
  redis.call('PERSIST', KEYS[1])
  ${tellChange("ARGV[3]")}
end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
return 1`;

/**
 * A call that the runner took stays INJECTED; only its place among the failed calls goes. Of another one what was delivered goes too, and
 * why it failed stays.
 */
const DISCARD = `${WHILE_FAILED}
local prefix = ARGV[5] .. ':'
${DROP_RESULT}
if redis.call('HGET', KEYS[1], 'st') ~= 'INJECTED' then
  redis.call('HSET', KEYS[1], 'st', ARGV[1], 'at', ARGV[2], 'v', ${PLAIN_RECORD})
  redis.call('PERSIST', KEYS[1])
  -- A delivery may have come before the call had a record.
  if dropResult(ARGV[3]) or redis.call('HEXISTS', KEYS[1], 'rs') == 1 then redis.call('HSET', KEYS[1], 'rs', 'gone') end
  ${tellChange("ARGV[3]")}
end
redis.call('ZREM', KEYS[2], ARGV[3])
return 1`;

/** The record as an operator's decision about a failed call changes it. */
export function createFailedRecords({ redis, keys, prefix }: Partition) {
  const replay = script(redis, REPLAY);
  const discard = script(redis, DISCARD);
  const discarded = script(redis, DISCARDED);

  async function leave(by: Script, to: RecordState, call: FailedRef, now: number): Promise<boolean> {
    const { id, queue, failedAt } = call;
    const touched = [keys.record(id), keys.since(queue), keys.inQueue(queue, "failed")];
    return (await by(touched, [to, now, id, failedAt, prefix])) === 1;
  }

  return {
    /**
     * FAILED becomes QUEUED, and the call waits from now on. Returns false, and changes nothing, if the call is no longer
     * failed or is being discarded.
     */
    beginReplay: (call: FailedRef, now: number) => leave(replay, "QUEUED", call, now),

    /** FAILED becomes DISCARDED, also for a producer that takes the call later. False if the call is no longer failed. */
    beginDiscard: (call: FailedRef, now: number) => leave(discard, "DISCARDED", call, now),

    /** The job of a discarded call is gone: the window begins again. */
    async endDiscard({ id, queue }: CallRef, now: number): Promise<void> {
      await discarded([keys.record(id), keys.attempts(id), keys.since(queue)], [now, id, RANDOM_ID_KEEP_MS]);
    },
  };
}
