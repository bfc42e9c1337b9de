import type { Origin } from "../job-call/job-call.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { type Script, script } from "../redis/script.ts";
import { RANDOM_ID_MARK_MS } from "./protocol.ts";

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
