import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { toScored } from "../redis/scored.ts";

/** How many payments, and when the oldest was claimed (unix milliseconds). */
export type Waiting = { payments: number; oldestAt: number | undefined };

/** Payments on their way to the queue, and those an operator has to decide about. */
export type Unresolved = { settling: Waiting; review: Waiting };

export function createUnresolved(redis: Redis): () => Promise<Unresolved> {
  async function waiting(key: string): Promise<Waiting> {
    const [payments, oldest] = await Promise.all([
      redis.zcard(key),
      redis.zrangebyscore(key, "-inf", "+inf", "WITHSCORES", "LIMIT", 0, 1),
    ]);
    return { payments, oldestAt: toScored(oldest)[0]?.score };
  }
  return async () => {
    const [settling, review] = await Promise.all([
      waiting(keys.paymentsUnresolved),
      waiting(keys.paymentsInReview),
    ]);
    return { settling, review };
  };
}
