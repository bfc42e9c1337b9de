import { Secret } from "../../shared/crypto/secret.ts";
import { messageOf } from "../../shared/errors/app-error.ts";
import { ORIGINS } from "../../shared/job-call/job-call.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { HEARTBEAT_FRESH_MS, lastBeats } from "../../shared/queue/heartbeat.ts";
import { createDepth } from "../../shared/queue/status.ts";
import { connectForRequests, whenReady } from "../../shared/redis/connect.ts";
import { delay, systemClock } from "../../shared/time/clock.ts";

/** How many calls are in the queues: on their way (waiting, delayed or in a producer's hands), or failed. */
export type Queued = { waiting: number; failed: number };

export type QueueView = {
  look(): Promise<Queued>;
  /** Throws when there are calls or producers already; waits a little for what a killed producer left behind to lapse. */
  assertUnused(): Promise<void>;
  close(): void;
};

const REDIS_DEADLINE_MS = 5000;
const LOOK_EVERY_MS = 250;

/** Looks into the queues of a Redis from outside. */
export async function openQueueView(redisUrl: string): Promise<QueueView> {
  const redis = connectForRequests(new Secret(redisUrl), silentLogger);
  const depths = ORIGINS.map((origin) => createDepth(redis, origin));
  await whenReady(redis, REDIS_DEADLINE_MS).catch((cause: unknown) => {
    redis.disconnect();
    throw new Error(`Redis at ${new URL(redisUrl).host} cannot be reached: ${messageOf(cause)}`, { cause });
  });

  async function look(): Promise<Queued> {
    const seen = await Promise.all(depths.map((depth) => depth()));
    return {
      waiting: sum(seen.map(({ waiting, delayed, active }) => waiting + delayed + active)),
      failed: sum(seen.map(({ failed }) => failed)),
    };
  }

  return {
    look,
    async assertUnused() {
      const deadline = systemClock() + HEARTBEAT_FRESH_MS;
      const workers = () => lastBeats(redis);
      while ((await workers()).length > 0 && systemClock() < deadline) await delay(LOOK_EVERY_MS);
      const { waiting, failed } = await look();
      const found = {
        "calls on their way": waiting,
        "failed calls": failed,
        producers: (await workers()).length,
      };
      if (Object.values(found).some((number) => number > 0)) throw inUse(found);
    },
    close: () => redis.disconnect(),
  };
}

function inUse(found: Readonly<Record<string, number>>): Error {
  const list = Object.entries(found).map(([what, number]) => `${what}: ${number}`);
  return new Error(
    `The Redis of REDIS_URL is in use (${list.join(", ")}); the demo would run calls that are not its own.\n` +
      "Unset REDIS_URL to let the demo start a Redis, or name one that Postern does not use.",
  );
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
