import type { Origin } from "../job-call/job-call.ts";
import { createBatcher } from "../redis/batcher.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { type Script, script } from "../redis/script.ts";
import { MOVE_TO_QUEUED, type RecordState } from "./protocol.ts";

/*
 * The record of a call as producers and operators read and write it; its states are in protocol.ts, and gateways write it in
 * enqueue.ts. Every change is one atomic script; none is retried here.
 */

/** A failed attempt, as `postern failed show` prints it. */
export type FailedAttempt = { at: number; code: string; reason: string; worker: string };

/** The call whose record is meant. */
type CallRef = { id: string; origin: Origin };

/** How long the INJECTED record of a call without a delivery id lives: longer than any late repeat of its add takes. */
const RANDOM_ID_MARK_MS = 3_600_000;

/** So many of a call's failed attempts are kept, the newest. */
const ATTEMPTS_KEPT = 50;

/** A worker that paused and lost its call may write too late: a call that has ended stays ended. */
const UNLESS_ENDED = `
local st = redis.call('HGET', KEYS[1], 'st')
if st == 'INJECTED' or st == 'DISCARDED' then return end`;

/** KEYS record, since. ARGV now, id. */
const FAIL = `${UNLESS_ENDED}
if st then
  redis.call('HSET', KEYS[1], 'st', 'FAILED', 'at', ARGV[1])
  redis.call('PERSIST', KEYS[1])
end
redis.call('ZREM', KEYS[2], ARGV[2])`;

/** KEYS record, attempts, since. ARGV attempt, attempts kept, accepted at, id. */
const RECORD_ATTEMPT = `${UNLESS_ENDED}
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('LTRIM', KEYS[2], -tonumber(ARGV[2]), -1)
redis.call('PERSIST', KEYS[2])
redis.call('ZADD', KEYS[3], 'NX', ARGV[3], ARGV[4])`;

/** States of calls that are not in their queue. The record of a call just taken from its queue may still hold one of them. */
const NOT_IN_QUEUE: readonly RecordState[] = ["CLAIMED", "SETTLED", "FAILED"];

export type CallRecords = ReturnType<typeof createCallRecords>;

/** The record as a producer writes it, from taking the call to its end. */
export function createCallRecords(redis: Redis) {
  const moveToQueued = script(redis, MOVE_TO_QUEUED);
  const { stateOf, inject, end } = createRecordBatches(redis);
  const fail = script(redis, FAIL);
  const recordAttempt = script(redis, RECORD_ATTEMPT);

  return {
    /**
     * After the call was taken from its queue: CLAIMED, SETTLED and FAILED become QUEUED. Returns the state found, if there is
     * a record. The state seldom has to change, so it is read first, with one command for many calls.
     */
    async taken(id: string, now: number): Promise<RecordState | undefined> {
      const found = toState(await stateOf(id));
      if (found === undefined || !NOT_IN_QUEUE.includes(found)) return found;
      return toState(await moveToQueued([keys.record(id)], [now, ...NOT_IN_QUEUE]));
    },

    /** The runner has the call: the window begins again. */
    injected: ({ id, origin }: CallRef, now: number) => inject({ id, origin, now }),

    /** The job of a discarded call is gone: the window begins again. */
    async discarded({ id, origin }: CallRef, now: number): Promise<void> {
      await end("DISCARDED", [{ id, origin, now }]);
    },

    /** The call failed for good. It no longer counts as waiting. */
    async failed({ id, origin }: CallRef, now: number): Promise<void> {
      await fail([keys.record(id), keys.since(origin)], [now, id]);
    },

    /** Records a failed attempt and, if it is the first, since when the call has waited. */
    async attemptFailed({ id, origin }: CallRef, attempt: FailedAttempt, acceptedAt: number): Promise<void> {
      const args = [JSON.stringify(attempt), ATTEMPTS_KEPT, acceptedAt, id];
      await recordAttempt([keys.record(id), keys.attempts(id), keys.since(origin)], args);
    },

    /** The failed attempts that are kept, oldest first. */
    async attempts(id: string): Promise<FailedAttempt[]> {
      const stored = await redis.lrange(keys.attempts(id), 0, -1);
      return stored.map((line) => JSON.parse(line) as FailedAttempt);
    },

    async state(id: string): Promise<RecordState | undefined> {
      return toState(await redis.hget(keys.record(id), "st"));
    },
  };
}

/** Null if there is no record. */
function toState(reply: unknown): RecordState | undefined {
  return (reply as RecordState | null) ?? undefined;
}

/** KEYS records. Answers their states. */
const READ_STATES = `
local states = {}
for i, key in ipairs(KEYS) do states[i] = redis.call('HGET', key, 'st') end
return states`;

/** KEYS record, attempts and since of each call. ARGV state, mark ms, then id and now of each call. */
const FINISH = `
for i = 0, #KEYS / 3 - 1 do
  local record, attempts, since = KEYS[3 * i + 1], KEYS[3 * i + 2], KEYS[3 * i + 3]
  local id, now = ARGV[2 * i + 3], ARGV[2 * i + 4]
  local w = redis.call('HGET', record, 'w') or ARGV[2]
  redis.call('HSET', record, 'st', ARGV[1], 'at', now)
  redis.call('PEXPIRE', record, w)
  redis.call('PEXPIRE', attempts, w)
  redis.call('ZREM', since, id)
end`;

type Ended = CallRef & { now: number };

/** What a producer does for every call, batched: one command for many calls costs what it cost for one. */
function createRecordBatches(redis: Redis) {
  const readStates = script(redis, READ_STATES);
  const finish = script(redis, FINISH);

  /** Ends calls, whatever their state. If it fails, some of them may have ended. */
  async function end(
    state: "INJECTED" | "DISCARDED",
    calls: readonly Ended[],
  ): Promise<readonly undefined[]> {
    const touched = calls.flatMap(({ id, origin }) => [
      keys.record(id),
      keys.attempts(id),
      keys.since(origin),
    ]);
    await finish(touched, [state, RANDOM_ID_MARK_MS, ...calls.flatMap(({ id, now }) => [id, now])]);
    return [];
  }

  return {
    stateOf: createBatcher(async (ids: readonly string[]) => {
      return (await readStates(ids.map(keys.record), [])) as (string | null)[];
    }),
    inject: createBatcher((calls: readonly Ended[]) => end("INJECTED", calls)),
    end,
  };
}

/** A failed call. `failedAt` (unix ms) tells this failure from earlier and later ones of the same call. */
export type FailedRef = CallRef & { failedAt: number };

/**
 * Both ways out of FAILED apply only while the call is failed, and only to the failure that the operator saw. Check and
 * change are one script, so that nothing comes between them. KEYS record, attempts, since, failed. ARGV state, now, mark ms,
 * id, failed at. Answer 1 if the change was made.
 */
const WHILE_FAILED = `
local score = redis.call('ZSCORE', KEYS[4], ARGV[4])
if not score or tonumber(score) ~= tonumber(ARGV[5]) then return 0 end`;

const REPLAY = `${WHILE_FAILED}
local st = redis.call('HGET', KEYS[1], 'st')
if st == 'DISCARDED' then return 0 end
if st == 'CLAIMED' or st == 'FAILED' then
  redis.call('HSET', KEYS[1], 'st', ARGV[1], 'at', ARGV[2])
  redis.call('PERSIST', KEYS[1])
end
redis.call('ZADD', KEYS[3], ARGV[2], ARGV[4])
return 1`;

const DISCARD = `${WHILE_FAILED}
redis.call('HSET', KEYS[1], 'st', ARGV[1], 'at', ARGV[2])
redis.call('PERSIST', KEYS[1])
redis.call('ZREM', KEYS[3], ARGV[4])
return 1`;

/** The record as an operator's decision about a failed call changes it. */
export function createFailedRecords(redis: Redis) {
  const replay = script(redis, REPLAY);
  const discard = script(redis, DISCARD);

  async function leave(by: Script, to: RecordState, call: FailedRef, now: number): Promise<boolean> {
    const { id, origin, failedAt } = call;
    const touched = [keys.record(id), keys.attempts(id), keys.since(origin), keys.failed(origin)];
    return (await by(touched, [to, now, RANDOM_ID_MARK_MS, id, failedAt])) === 1;
  }

  return {
    /**
     * FAILED becomes QUEUED, and the call waits from now on. Returns false, and changes nothing, if the call is no longer
     * failed or is being discarded.
     */
    replaying: (call: FailedRef, now: number) => leave(replay, "QUEUED", call, now),

    /** FAILED becomes DISCARDED, also for a producer that takes the call later. False if the call is no longer failed. */
    discarding: (call: FailedRef, now: number) => leave(discard, "DISCARDED", call, now),
  };
}
