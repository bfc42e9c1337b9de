import { Secret } from "../../shared/crypto/secret.ts";
import { ORIGINS } from "../../shared/job-call/job-call.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { createDepth } from "../../shared/queue/depth.ts";
import { workersAlive } from "../../shared/queue/heartbeat.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { whenReady } from "../../shared/redis/when-ready.ts";
import { systemClock } from "../../shared/time/clock.ts";

/** How many calls are in the queues: on their way (waiting, delayed or in a producer's hands), or parked. */
export type Queued = { waiting: number; parked: number };

export type QueueView = {
  look(): Promise<Queued>;
  /** Throws when there are calls or producers already. */
  assertUnused(): Promise<void>;
  close(): void;
};

const REDIS_DEADLINE_MS = 5000;

/** Looks into the queues of a Redis from outside. */
export async function openQueueView(redisUrl: string): Promise<QueueView> {
  const redis = connectForRequests(new Secret(redisUrl), silentLogger);
  const depths = ORIGINS.map((origin) => createDepth(redis, origin));
  await whenReady(redis, REDIS_DEADLINE_MS).catch((error: unknown) => {
    redis.disconnect();
    throw error;
  });

  async function look(): Promise<Queued> {
    const seen = await Promise.all(depths.map((depth) => depth()));
    return {
      waiting: sum(seen.map(({ waiting, delayed, active }) => waiting + delayed + active)),
      parked: sum(seen.map(({ parked }) => parked)),
    };
  }

  return {
    look,
    async assertUnused() {
      const { waiting, parked } = await look();
      const workers = await workersAlive(redis, systemClock());
      if (waiting + parked + workers.length === 0) return;
      const found = `${waiting} calls on their way, ${parked} parked, ${workers.length} producers`;
      throw new Error(
        `The Redis of REDIS_URL is in use (${found}); the demo would run calls that are not its own.\n` +
          "Unset REDIS_URL to let the demo start a Redis, or name one that Postern does not use.",
      );
    },
    close: () => redis.disconnect(),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
