import { AppError } from "../platform/errors/app-error.ts";
import { type Clock, within } from "../platform/time/clock.ts";
import { lastSeen, noteSeen } from "../redis/last-seen.ts";
import { askOne } from "../redis/merge.ts";
import type { Partition, Partitions } from "../redis/partition.ts";

const HEARTBEAT_EVERY_MS = 2000;
/** A worker counts as gone after this time without a beat: three beats are missing. */
export const HEARTBEAT_FRESH_MS = 3 * HEARTBEAT_EVERY_MS;
const FORGOTTEN_AFTER_MS = 86_400_000;
/** Maximum time that a stopping worker waits until Redis has deleted its beat. */
const FAREWELL_MS = 1000;

type Heartbeat = {
  /** Returns whether Redis has answered a recent beat. */
  isFresh(): boolean;
  /** Sends a beat immediately. */
  beat(): void;
  stop(): Promise<void>;
};

type Options = {
  workerId: string;
  clock: Clock;
  /** Returns false while Redis holds the data of another deployment. No beat is written then. */
  isUsable?: () => boolean;
};

/**
 * Tells Redis every two seconds that this worker is alive, until stopped. If Redis does not answer a beat, the connection is
 * closed and opened again. The reason is that a worker's commands have no timeout, so they would wait forever on a connection
 * that has become silent.
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
      // Sends the command only on a connection that is ready, because any other connection would keep it until Redis is back.
      if (redis.status === "ready") await within(FAREWELL_MS, redis.zrem(keys.workers, workerId));
    },
  };
}

export type Beat = { id: string; ageMs: number };

/** Returns the workers with a recent beat, oldest beat first. */
export async function lastBeats({ redis, keys }: Partition): Promise<Beat[]> {
  const beats = await lastSeen(redis, keys.workers, HEARTBEAT_FRESH_MS);
  return beats.map(({ member: id, ageMs }) => ({ id, ageMs }));
}

/**
 * Returns the newest beat of each worker in all partitions. A worker beats in every partition that it reaches, so partitions
 * that cannot be read may be left out. Throws if no partition can be read.
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
