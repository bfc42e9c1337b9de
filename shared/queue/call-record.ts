import type { Origin } from "../job-call/job-call.ts";
import { createBatcher } from "../redis/batcher.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { type Script, script } from "../redis/script.ts";
import { ATTEMPTS_KEPT, RANDOM_ID_MARK_MS } from "./protocol.ts";

/*
 * BullMQ forgets an id once its job is removed and swallows a second add without saying so; the record remembers.
 *
 *   (none) ─claim─► CLAIMED ─add─► QUEUED ─► INJECTED
 *                                    │  ▲
 *                                    ▼  │ replay
 *                                  FAILED ─► DISCARDED
 *
 * A paid call begins as a payment (shared/payments/payment.ts) and comes here as SETTLED.
 * CLAIMED lives for the window; QUEUED and FAILED do not expire; the window runs anew from INJECTED and DISCARDED.
 * Fields: st state, bh body sha256, w window in ms, at time of the last change, by the request that claimed. A call without
 * evidence has no claim: its record appears with its end.
 */
type RecordState = "CLAIMED" | "SETTLED" | "QUEUED" | "FAILED" | "INJECTED" | "DISCARDED";

/** A failed attempt, as `postern failed show` prints it. */
export type FailedAttempt = { at: number; code: string; reason: string; worker: string };

type Claim =
  | { kind: "new" }
  | { kind: "conflict" }
  | { kind: "known"; state: Exclude<RecordState, "SETTLED"> };

const CLAIM = `
local st = redis.call('HGET', KEYS[1], 'st')
if not st then
  redis.call('HSET', KEYS[1], 'st', 'CLAIMED', 'bh', ARGV[1], 'w', ARGV[2], 'at', ARGV[3], 'by', ARGV[4])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 'NEW'
end
local bh = redis.call('HGET', KEYS[1], 'bh')
if bh and bh ~= ARGV[1] then return 'CONFLICT' end
if st == 'CLAIMED' and redis.call('HGET', KEYS[1], 'by') == ARGV[4] then return 'NEW' end
return st`;

const MOVE_TO_QUEUED = `
local st = redis.call('HGET', KEYS[1], 'st')
for i = 2, #ARGV do
  if st == ARGV[i] then
    redis.call('HSET', KEYS[1], 'st', 'QUEUED', 'at', ARGV[1])
    redis.call('PERSIST', KEYS[1])
    break
  end
end
return st`;

/** A worker that stood still and lost its call speaks too late: what has ended stays ended. */
const UNLESS_ENDED = `
local st = redis.call('HGET', KEYS[1], 'st')
if st == 'INJECTED' or st == 'DISCARDED' then return end`;

const FAIL = `${UNLESS_ENDED}
if st then
  redis.call('HSET', KEYS[1], 'st', 'FAILED', 'at', ARGV[1])
  redis.call('PERSIST', KEYS[1])
end
redis.call('ZREM', KEYS[2], ARGV[2])`;

const RECORD_ATTEMPT = `${UNLESS_ENDED}
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('LTRIM', KEYS[2], -tonumber(ARGV[2]), -1)
redis.call('PERSIST', KEYS[2])
redis.call('ZADD', KEYS[3], 'NX', ARGV[3], ARGV[4])`;

/** States that say that a call is not in its queue, and lag behind when it was taken from there. */
const BEHIND: readonly RecordState[] = ["CLAIMED", "SETTLED", "FAILED"];

function isBehind(state: RecordState | undefined): boolean {
  return state !== undefined && BEHIND.includes(state);
}

type Claimant = { windowMs: number; now: number; by: string };

/** A call, as far as its record is concerned. */
type Of = { id: string; origin: Origin };

export type CallRecords = ReturnType<typeof createCallRecords>;

/**
 * The writer and reader of call records; only an operator's ways out of FAILED are elsewhere (failed-record.ts). Every
 * change is one atomic script; none is retried here.
 */
export function createCallRecords(redis: Redis) {
  const claim = script(redis, CLAIM);
  const moveToQueued = script(redis, MOVE_TO_QUEUED);
  const { stateOf, inject, end } = createRecordBatches(redis);
  const fail = script(redis, FAIL);
  const recordAttempt = script(redis, RECORD_ATTEMPT);

  async function state(id: string): Promise<RecordState | undefined> {
    return ((await redis.hget(keys.record(id), "st")) as RecordState | null) ?? undefined;
  }

  async function toQueued(id: string, now: number, ...from: RecordState[]): Promise<RecordState | undefined> {
    return ((await moveToQueued([keys.record(id)], [now, ...from])) as RecordState | null) ?? undefined;
  }

  return {
    /** Makes the record of a call with evidence, or tells what is known of it. Who claims again, as `by`, has claimed. */
    async claim(id: string, bodySha256: string, { windowMs, now, by }: Claimant): Promise<Claim> {
      const reply = (await claim([keys.record(id)], [bodySha256, windowMs, now, by])) as string;
      if (reply === "NEW") return { kind: "new" };
      if (reply === "CONFLICT") return { kind: "conflict" };
      return { kind: "known", state: reply as Exclude<RecordState, "SETTLED"> };
    },

    /** For who added the call: CLAIMED becomes QUEUED, any other state is newer. Answers the state found. */
    added: (id: string, now: number) => toQueued(id, now, "CLAIMED"),

    /**
     * For who took the call from its queue: CLAIMED, SETTLED and FAILED become QUEUED. Answers the state found, if there is a
     * record; it seldom has to change, and one read is enough for many.
     */
    async taken(id: string, now: number): Promise<RecordState | undefined> {
      const found = ((await stateOf(id)) as RecordState | null) ?? undefined;
      return isBehind(found) ? toQueued(id, now, ...BEHIND) : found;
    },

    injected: ({ id, origin }: Of, now: number) => inject({ id, origin, now }),

    /** Ends a discard: the window runs from now on. */
    async discarded({ id, origin }: Of, now: number): Promise<void> {
      await end("DISCARDED", [{ id, origin, now }]);
    },

    /** Failed calls do not count as waiting. */
    async failed({ id, origin }: Of, now: number): Promise<void> {
      await fail([keys.record(id), keys.since(origin)], [now, id]);
    },

    /** Remembers a failed attempt, and since when the call has waited. */
    async attemptFailed({ id, origin }: Of, attempt: FailedAttempt, acceptedAt: number): Promise<void> {
      const args = [JSON.stringify(attempt), ATTEMPTS_KEPT, acceptedAt, id];
      await recordAttempt([keys.record(id), keys.attempts(id), keys.since(origin)], args);
    },

    async attempts(id: string): Promise<FailedAttempt[]> {
      const stored = await redis.lrange(keys.attempts(id), 0, -1);
      return stored.map((line) => JSON.parse(line) as FailedAttempt);
    },

    state,
  };
}

/** A failed call; `failedAt` tells this failure from an earlier or a later one of the same call. */
export type FailedRef = { id: string; origin: Origin; failedAt: number };

/*
 * The two ways out of FAILED. Each holds only while the call lies among the failed ones, in the very failure that was
 * looked at: check and change are one script, so that nothing comes between them.
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

/** What an operator's decision does to the record of a failed call. */
export function createFailedRecords(redis: Redis) {
  const replay = script(redis, REPLAY);
  const discard = script(redis, DISCARD);
  return {
    /**
     * FAILED becomes QUEUED, and the call waits from now on. False, and nothing is changed, when it is not failed any
     * more or is being discarded.
     */
    replaying: (call: FailedRef, now: number) => leave(replay, call, ["QUEUED", now]),
    /** DISCARDED from now on, whoever takes the call. False, and nothing is changed, when it is not failed any more. */
    discarding: (call: FailedRef, now: number) => leave(discard, call, ["DISCARDED", now]),
  };
}

async function leave(by: Script, call: FailedRef, toAndNow: readonly [string, number]): Promise<boolean> {
  const { id, origin, failedAt } = call;
  const touched = [keys.record(id), keys.attempts(id), keys.since(origin), keys.failed(origin)];
  return (await by(touched, [...toAndNow, RANDOM_ID_MARK_MS, id, failedAt])) === 1;
}

const READ_STATES = `
local states = {}
for i, key in ipairs(KEYS) do states[i] = redis.call('HGET', key, 'st') end
return states`;

/** Three keys of each call, and two arguments: its id and the time. */
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

type Ended = { id: string; origin: Origin; now: number };

/** What a producer does with the record of every single call, done for many at once: one command costs what one call did. */
function createRecordBatches(redis: Redis) {
  const readStates = script(redis, READ_STATES);
  const finish = script(redis, FINISH);

  /** Ends calls, whatever they were: all of them or, when it fails, possibly some. */
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
