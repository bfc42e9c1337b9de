import type { Origin } from "../job-call/job-call.ts";
import { createBatcher } from "../redis/batcher.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { script } from "../redis/script.ts";
import { RANDOM_ID_MARK_MS } from "./protocol.ts";

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

export type Ended = { id: string; origin: Origin; now: number };

/** What a producer does with the record of every single call, done for many at once: one command costs what one call did. */
export function createRecordBatches(redis: Redis) {
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
