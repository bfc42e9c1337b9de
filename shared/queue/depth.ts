import type { Queue } from "bullmq";
import type { JobCall, Origin } from "../job-call/job-call.ts";
import type { Redis } from "../redis/connect.ts";
import { keys } from "../redis/keys.ts";
import { openQueue } from "./open-queue.ts";

export type Depth = {
  waiting: number;
  delayed: number;
  active: number;
  failed: number;
  /** When the oldest call that waits or is delayed began to; absent when none does. Failed calls do not count. */
  oldestSince: number | undefined;
};

/** How much of an origin's queue is filled. */
export function createDepth(redis: Redis, origin: Origin): () => Promise<Depth> {
  const queue = openQueue(redis, origin);
  return async () => {
    const counts = await queue.getJobCounts("wait", "prioritized", "delayed", "active", "failed");
    const waiting = (counts["wait"] ?? 0) + (counts["prioritized"] ?? 0);
    const since = [
      await oldestWaiting(queue, { redis, origin }),
      await oldestRetrying(queue, { redis, origin }),
    ];
    const known = since.filter((at) => at !== undefined);
    return {
      waiting,
      delayed: counts["delayed"] ?? 0,
      active: counts["active"] ?? 0,
      failed: counts["failed"] ?? 0,
      oldestSince: known.length === 0 ? undefined : Math.min(...known),
    };
  };
}

type Where = { redis: Redis; origin: Origin };

/** The call at the head of the line; one that failed before or was replayed has its own entry in `since`. */
async function oldestWaiting(queue: Queue<JobCall>, { redis, origin }: Where): Promise<number | undefined> {
  const [id] = await redis.lrange(queue.toKey("wait"), -1, -1);
  if (id === undefined) return undefined;
  const [since, timestamp] = await Promise.all([
    redis.zscore(keys.since(origin), id),
    redis.hget(queue.toKey(id), "timestamp"),
  ]);
  const at = Number(since ?? timestamp ?? Number.NaN);
  return Number.isNaN(at) ? undefined : at;
}

/** The longest-waiting call that failed once or was replayed; entries whose job somebody removed are forgotten. */
async function oldestRetrying(queue: Queue<JobCall>, { redis, origin }: Where): Promise<number | undefined> {
  for (;;) {
    const [id, score] = await redis.zrange(keys.since(origin), "0", "0", "WITHSCORES");
    if (id === undefined) return undefined;
    if ((await redis.exists(queue.toKey(id))) === 1) return Number(score);
    await redis.zrem(keys.since(origin), id);
  }
}
