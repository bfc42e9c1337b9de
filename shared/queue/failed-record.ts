import type { Origin } from "../job-call/job-call.ts";
import type { Redis } from "../redis/connect.ts";
import { type Script, script } from "../redis/script.ts";
import { keys, RANDOM_ID_MARK_MS } from "./protocol.ts";

/** A parked call; `parkedAt` tells this parking from an earlier or a later one of the same call. */
export type Parked = { id: string; origin: Origin; parkedAt: number };

/*
 * The two ways out of PARKED. Each holds only while the call lies among the parked ones, in the very parking that was
 * looked at: check and change are one script, so that nothing comes between them.
 */
const WHILE_PARKED = `
local score = redis.call('ZSCORE', KEYS[4], ARGV[4])
if not score or tonumber(score) ~= tonumber(ARGV[5]) then return 0 end`;

const REPLAY = `${WHILE_PARKED}
local st = redis.call('HGET', KEYS[1], 'st')
if st == 'DISCARDED' then return 0 end
if st == 'CLAIMED' or st == 'PARKED' then
  redis.call('HSET', KEYS[1], 'st', ARGV[1], 'at', ARGV[2])
  redis.call('PERSIST', KEYS[1])
end
redis.call('ZADD', KEYS[3], ARGV[2], ARGV[4])
return 1`;

const DISCARD = `${WHILE_PARKED}
redis.call('HSET', KEYS[1], 'st', ARGV[1], 'at', ARGV[2])
redis.call('PERSIST', KEYS[1])
redis.call('ZREM', KEYS[3], ARGV[4])
return 1`;

/** What an operator's decision does to the record of a parked call. */
export function createParkedRecords(redis: Redis) {
  const replay = script(redis, REPLAY);
  const discard = script(redis, DISCARD);
  return {
    /**
     * PARKED becomes QUEUED, and the call waits from now on. False, and nothing is changed, when it is not parked any
     * more or is being discarded.
     */
    replaying: (call: Parked, now: number) => leave(replay, call, ["QUEUED", now]),
    /** DISCARDED from now on, whoever takes the call. False, and nothing is changed, when it is not parked any more. */
    discarding: (call: Parked, now: number) => leave(discard, call, ["DISCARDED", now]),
  };
}

async function leave(by: Script, call: Parked, toAndNow: readonly [string, number]): Promise<boolean> {
  const { id, origin, parkedAt } = call;
  const touched = [keys.record(id), keys.attempts(id), keys.since(origin), keys.parked(origin)];
  return (await by(touched, [...toAndNow, RANDOM_ID_MARK_MS, id, parkedAt])) === 1;
}
