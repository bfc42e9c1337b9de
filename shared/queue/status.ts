import type { Metrics, Queue } from "bullmq";
import { AppError } from "../errors/app-error.ts";
import { type JobCall, ORIGINS, type Origin } from "../job-call/job-call.ts";
import type { Redis } from "../redis/connect.ts";
import { type DiskProof, type DurabilityMode, readServerState } from "../redis/durable.ts";
import { keys } from "../redis/keys.ts";
import { type Clock, delay } from "../time/clock.ts";
import { type Beat, lastBeats } from "./heartbeat.ts";
import { openQueue } from "./protocol.ts";

export type QueueStatus = Omit<Depth, "oldestSince"> & {
  origin: Origin;
  /** How long the oldest call that is not failed has waited; undefined if none waits. */
  oldestAgeMs: number | undefined;
  /** Adds that reached the queue during the sample. A repeated add of the same call counts again. */
  acceptedPerSecond: number;
  injectedPerMinute: number;
  failedPerMinute: number;
};

/** Whether Redis can keep what a 202 promises. If not, `problem` says why, and what to do. */
export type RedisStatus =
  | { mode: DurabilityMode; proof: DiskProof; usedMemoryBytes: number; maxMemoryBytes: number }
  | { mode: DurabilityMode; problem: string };

export type Status = {
  at: number;
  queues: QueueStatus[];
  workers: Beat[];
  redis: RedisStatus;
};

/** Reads the status of queues, workers and Redis. Each reading takes `sampleMs`, in which it counts the adds. */
export function createStatus({
  redis,
  mode,
  clock,
  sampleMs = 1000,
}: {
  redis: Redis;
  mode: DurabilityMode;
  clock: Clock;
  sampleMs?: number;
}): () => Promise<Status> {
  const readQueues = ORIGINS.map((origin) => createQueueStatus(redis, origin, clock, sampleMs));
  return async () => {
    const queues = await Promise.all(readQueues.map((read) => read()));
    return {
      at: clock(),
      queues,
      workers: await lastBeats(redis),
      redis: await redisStatus(redis, mode),
    };
  };
}

function createQueueStatus(
  redis: Redis,
  origin: Origin,
  clock: Clock,
  sampleMs: number,
): () => Promise<QueueStatus> {
  const queue = openQueue(redis, origin);
  const readDepth = createDepth(redis, origin);
  return async () => {
    const acceptedPerSecond = await addsPerSecond(redis, queue, clock, sampleMs);
    const [{ oldestSince, ...depth }, injected, failed] = await Promise.all([
      readDepth(),
      queue.getMetrics("completed"),
      queue.getMetrics("failed"),
    ]);
    const now = clock();
    return {
      origin,
      ...depth,
      oldestAgeMs: oldestSince === undefined ? undefined : Math.max(0, now - oldestSince),
      acceptedPerSecond,
      injectedPerMinute: perMinute(injected, now),
      failedPerMinute: perMinute(failed, now),
    };
  };
}

/** BullMQ counts every add to a queue in the queue's `id` key, also if the call brings its own id. */
async function addsPerSecond(
  redis: Redis,
  queue: Queue<JobCall>,
  clock: Clock,
  sampleMs: number,
): Promise<number> {
  const read = async () => ({ count: Number((await redis.get(queue.toKey("id"))) ?? 0), at: clock() });
  const before = await read();
  await delay(sampleMs);
  const after = await read();
  return ((after.count - before.count) * 1000) / Math.max(1, after.at - before.at);
}

const MINUTE_MS = 60_000;
const MINUTES = 5;

/**
 * The mean over the last five whole minutes and the current one so far. BullMQ closes a minute only when a job ends in a
 * later one: `data[0]` counts the minute before that of `prevTS`, and `count - prevCount` have ended since.
 */
export function perMinute({ meta, data }: Pick<Metrics, "meta" | "data">, now: number): number {
  if (meta.prevTS === 0) return 0;
  const idle = Math.floor(now / MINUTE_MS) - Math.floor(meta.prevTS / MINUTE_MS);
  const newestFirst = [...Array<number>(Math.max(0, Math.min(idle, MINUTES + 1))).fill(0)];
  newestFirst.push(meta.count - meta.prevCount, ...data);
  const ended = newestFirst.slice(0, MINUTES + 1).reduce((sum, count) => sum + count, 0);
  return ended / (MINUTES + (now % MINUTE_MS) / MINUTE_MS);
}

async function redisStatus(redis: Redis, mode: DurabilityMode): Promise<RedisStatus> {
  try {
    return { mode, ...(await readServerState(redis, mode)) };
  } catch (error) {
    if (error instanceof AppError) return { mode, problem: error.message };
    throw error;
  }
}

export type Depth = {
  waiting: number;
  delayed: number;
  active: number;
  failed: number;
  /** When the oldest call that waits or is delayed began to wait; undefined if there is none. Failed calls do not count. */
  oldestSince: number | undefined;
};

/** Reads how many calls an origin's queue holds, and since when. */
export function createDepth(redis: Redis, origin: Origin): () => Promise<Depth> {
  const queue = openQueue(redis, origin);
  return async () => {
    const counts = await queue.getJobCounts("wait", "prioritized", "delayed", "active", "failed");
    const waiting = (counts["wait"] ?? 0) + (counts["prioritized"] ?? 0);
    const since = [await oldestWaiting(redis, origin, queue), await oldestRetrying(redis, origin, queue)];
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

/** Since when the next call to be taken waits. A call that failed once or was replayed has its own entry in `since`. */
async function oldestWaiting(
  redis: Redis,
  origin: Origin,
  queue: Queue<JobCall>,
): Promise<number | undefined> {
  const [id] = await redis.lrange(queue.toKey("wait"), -1, -1);
  if (id === undefined) return undefined;
  const [since, timestamp] = await Promise.all([
    redis.zscore(keys.since(origin), id),
    redis.hget(queue.toKey(id), "timestamp"),
  ]);
  const at = Number(since ?? timestamp ?? Number.NaN);
  return Number.isNaN(at) ? undefined : at;
}

/** The longest wait of a call that failed once or was replayed. Removes entries whose job is gone. */
async function oldestRetrying(
  redis: Redis,
  origin: Origin,
  queue: Queue<JobCall>,
): Promise<number | undefined> {
  for (;;) {
    const [id, score] = await redis.zrange(keys.since(origin), "0", "0", "WITHSCORES");
    if (id === undefined) return undefined;
    if ((await redis.exists(queue.toKey(id))) === 1) return Number(score);
    await redis.zrem(keys.since(origin), id);
  }
}

/** Whether a call is in its queue: waiting, delayed, active or failed. */
export async function isQueued(redis: Redis, origin: Origin, callId: string): Promise<boolean> {
  return (await redis.exists(keys.inQueue(origin, callId))) === 1;
}
