import { callbackId, ENDINGS } from "../call/callback.ts";
import type { Keys } from "../redis/keys.ts";

/**
 * Returns the Redis keys that belong to a call (`touched`), and the ids of the callbacks that the call may have. Each
 * key has the name by which the Lua scripts in this folder read it from `KEYS`, such as `KEYS.record`.
 */
export function callKeys(keys: Keys, id: string) {
  const callbackIds = ENDINGS.map((ending) => callbackId(id, ending));
  const touched = {
    record: keys.record(id),
    payment: keys.payment(id),
    attempts: keys.attempts(id),
    result: keys.result(id),
    progress: keys.progress(id),
    kept: keys.kept(id),
    registry: keys.queues,
    callbacks: callbackIds.map((callback) => ({
      record: keys.record(callback),
      attempts: keys.attempts(callback),
    })),
  };
  return { touched, callbackIds };
}
