import type { Redis } from "../redis/connect.ts";
import { toScored } from "../redis/scored.ts";
import type { Clock } from "../time/clock.ts";
import { HEARTBEAT_EVERY_MS, HEARTBEAT_FRESH_MS, keys } from "./agreements.ts";

export type Heartbeat = { stop(): Promise<void> };

/** Says every two seconds that this worker lives, until stopped. */
export function beat({
  redis,
  workerId,
  clock,
}: {
  redis: Redis;
  workerId: string;
  clock: Clock;
}): Heartbeat {
  const once = async (): Promise<void> => {
    await redis.zadd(keys.workers, clock(), workerId).catch(() => {});
  };
  void once();
  const timer = setInterval(() => void once(), HEARTBEAT_EVERY_MS);
  return {
    stop: async () => {
      clearInterval(timer);
      if (redis.status === "ready") await redis.zrem(keys.workers, workerId).catch(() => {});
    },
  };
}

/** The ids of the workers heard of lately. Forgets those silent for a day. */
export async function workersAlive(redis: Redis, now: number): Promise<string[]> {
  await redis.zremrangebyscore(keys.workers, 0, now - 86_400_000);
  return redis.zrangebyscore(keys.workers, now - HEARTBEAT_FRESH_MS, "+inf");
}

/** The workers heard of lately and when, the oldest beat first. */
export async function lastBeats(redis: Redis, now: number): Promise<{ id: string; at: number }[]> {
  const reply = await redis.zrangebyscore(keys.workers, now - HEARTBEAT_FRESH_MS, "+inf", "WITHSCORES");
  return toScored(reply).map(({ member, score }) => ({ id: member, at: score }));
}
