import { AppError } from "../platform/errors/app-error.ts";
import { type Clock, within } from "../platform/time/clock.ts";
import { lastSeen, noteSeen } from "../redis/last-seen.ts";
import { askOne } from "../redis/merge.ts";
import type { Partition, Partitions } from "../redis/partition.ts";

const HEARTBEAT_EVERY_MS = 2000;
/** A worker that was silent for three beats counts as gone. */
export const HEARTBEAT_FRESH_MS = 3 * HEARTBEAT_EVERY_MS;
const FORGOTTEN_AFTER_MS = 86_400_000;
/** How long a worker that stops waits to be forgotten at once, instead of by its silence. */
const FAREWELL_MS = 1000;

type Heartbeat = {
  /** Whether Redis has answered a beat lately. */
  isFresh(): boolean;
  /** Beats now. */
  beat(): void;
  stop(): Promise<void>;
};

type Options = {
  workerId: string;
  clock: Clock;
  /** While Redis holds other data, nothing is written to it. */
  isUsable?: () => boolean;
};

/**
 * Tells Redis every two seconds that this worker is alive, until stopped. If a beat is not answered, the connection counts
 * as dead and is opened again: a worker's commands have no timeout, and would wait on a silent connection for ever.
 */
export function beat(
  { redis, keys }: Partition,
  { workerId, clock, isUsable = () => true }: Options,
): Heartbeat {
  const seen = { keptMs: FORGOTTEN_AFTER_MS, members: [workerId] };
  let lastAt: number | undefined;
  let beating = false;
  const once = async (): Promise<void> => {
    if (beating || redis.status !== "ready") return;
    beating = true;
    const answer: Promise<unknown> = isUsable() ? noteSeen(redis, keys.workers, seen) : redis.time();
    const outcome = await within(HEARTBEAT_FRESH_MS, answer);
    if (outcome.kind === "done") lastAt = clock();
    if (outcome.kind === "late") redis.disconnect(true);
    beating = false;
  };
  const now = (): void => void once();
  redis.on("ready", now);
  now();
  const timer = setInterval(now, HEARTBEAT_EVERY_MS);
  return {
    beat: now,
    isFresh: () => lastAt !== undefined && clock() - lastAt < HEARTBEAT_FRESH_MS,
    stop: async () => {
      clearInterval(timer);
      redis.off("ready", now);
      // A connection that dies now would keep the command until Redis is back.
      if (redis.status === "ready") await within(FAREWELL_MS, redis.zrem(keys.workers, workerId));
    },
  };
}

export type Beat = { id: string; ageMs: number };

/** The workers whose last beat is fresh, the oldest beat first. */
export async function lastBeats({ redis, keys }: Partition): Promise<Beat[]> {
  const beats = await lastSeen(redis, keys.workers, HEARTBEAT_FRESH_MS);
  return beats.map(({ member: id, ageMs }) => ({ id, ageMs }));
}

/**
 * Reads the beats of all partitions, and keeps the newest one of each worker. A worker beats in every partition that it can reach, so a partition that
 * cannot be read is left out. Throws if none can be read.
 */
export async function lastBeatsInAny(partitions: Partitions): Promise<Beat[]> {
  let failure: AppError | undefined;
  const found = await Promise.all(
    partitions.all.map((_, index) =>
      askOne(partitions, index, lastBeats).catch((error: unknown) => {
        if (!(error instanceof AppError)) throw error;
        failure = error;
        return undefined;
      }),
    ),
  );
  if (failure !== undefined && found.every((beats) => beats === undefined)) throw failure;
  const oldestFirst = (beats: Beat[]) => beats.sort((a, b) => b.ageMs - a.ageMs);
  const newest = new Map(oldestFirst(found.flatMap((beats) => beats ?? [])).map((each) => [each.id, each]));
  return oldestFirst([...newest.values()]);
}
