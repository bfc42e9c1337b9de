import { callbackId, ENDINGS } from "../call/callback.ts";
import type { Keys } from "../redis/keys.ts";

/**
 * Returns the Redis keys of a call and its callbacks, by the names of KEYS in this folder's scripts, and the ids of the
 * callbacks.
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
