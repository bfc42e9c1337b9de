import { AppError } from "../platform/errors/app-error.ts";
import { type Clock, delay } from "../platform/time/clock.ts";
import type { Redis } from "../redis/connect.ts";
import type { Partition } from "../redis/partition.ts";
import { type DiskProof, type DurabilityMode, readServerState } from "../redis/server-state.ts";
import { type Beat, lastBeats } from "./heartbeat.ts";
import type { QueueName } from "./queue-name.ts";
import {
  COUNTS,
  type Depth,
  type Ended,
  METRIC_MINUTES,
  openRegistry,
  type QueueReading,
  sums,
} from "./registry.ts";

export type QueueStatus = Omit<Depth, "oldestSince"> & {
  queue: QueueName;
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
  /** By name. */
  queues: QueueStatus[];
  workers: Beat[];
  redis: RedisStatus;
};

/** Reads the status of queues, workers and Redis. Each reading takes `sampleMs`, in which it counts the adds. */
export function createStatus({
  partition,
  clock,
  sampleMs = 1000,
  mode,
}: {
  partition: Partition;
  mode: DurabilityMode;
  clock: Clock;
  sampleMs?: number;
}): () => Promise<Status> {
  const registry = openRegistry(partition);
  const read = async () => ({ readings: await registry.readings(), at: clock() });
  return async () => {
    const before = await read();
    await delay(sampleMs);
    const { readings, at } = await read();
    const added = new Map(before.readings.map((reading) => [reading.queue, reading.added]));
    const sampledMs = Math.max(1, at - before.at);
    return {
      at,
      queues: readings.map((reading) => toStatus(reading, added.get(reading.queue) ?? 0, { at, sampledMs })),
      workers: await lastBeats(partition),
      redis: await redisStatus(partition.redis, mode),
    };
  };
}

function toStatus(
  reading: QueueReading,
  addedBefore: number,
  { at, sampledMs }: { at: number; sampledMs: number },
): QueueStatus {
  const { queue, waiting, delayed, active, failed, oldestSince, added, completed, failedEnds } = reading;
  return {
    queue,
    waiting,
    delayed,
    active,
    failed,
    oldestAgeMs: oldestSince === undefined ? undefined : Math.max(0, at - oldestSince),
    acceptedPerSecond: (Math.max(0, added - addedBefore) * 1000) / sampledMs,
    injectedPerMinute: perMinute(completed, at),
    failedPerMinute: perMinute(failedEnds, at),
  };
}

/** Several queues as one. */
export function sumOf(queues: readonly Omit<QueueStatus, "queue">[]): Omit<QueueStatus, "queue"> {
  const ages = queues.flatMap(({ oldestAgeMs }) => oldestAgeMs ?? []);
  return {
    ...sums(queues, [...COUNTS, "acceptedPerSecond", "injectedPerMinute", "failedPerMinute"]),
    oldestAgeMs: ages.length === 0 ? undefined : Math.max(...ages),
  };
}

const MINUTE_MS = 60_000;

/**
 * The mean over the last five whole minutes and the current one so far. BullMQ closes a minute only when a job ends in a
 * later one: `data[0]` counts the minute before that of `prevTS`, and `count - prevCount` have ended since.
 */
export function perMinute({ meta, data }: Ended, now: number): number {
  if (meta.prevTS === 0) return 0;
  const idle = Math.floor(now / MINUTE_MS) - Math.floor(meta.prevTS / MINUTE_MS);
  const newestFirst = [...Array<number>(Math.max(0, Math.min(idle, METRIC_MINUTES + 1))).fill(0)];
  newestFirst.push(meta.count - meta.prevCount, ...data);
  const ended = newestFirst.slice(0, METRIC_MINUTES + 1).reduce((sum, count) => sum + count, 0);
  return ended / (METRIC_MINUTES + (now % MINUTE_MS) / MINUTE_MS);
}

/** Whether Redis keeps now what this mode promises. */
export async function redisStatus(redis: Redis, mode: DurabilityMode): Promise<RedisStatus> {
  try {
    return { mode, ...(await readServerState(redis, mode)) };
  } catch (error) {
    if (error instanceof AppError) return { mode, problem: error.message };
    throw error;
  }
}
