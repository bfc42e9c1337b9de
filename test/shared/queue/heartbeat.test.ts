import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { beat, lastBeatsInAny } from "../../../shared/queue/heartbeat.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { noteSeen } from "../../../shared/redis/last-seen.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { partitionsOn } from "../../support/partitions.ts";

const redis = useRedis();
const ends = useEnds();
beforeEach(async () => {
  await redis.client.flushall();
});

/** A connection to a server that cannot be reached. */
function connectToNowhere() {
  const connection = connectForRequests({ url: new Secret("redis://127.0.0.1:1") }, silentLogger);
  ends.defer(() => connection.disconnect());
  return connection;
}

/** Has a worker send heartbeats to these partitions. */
function start(workerId: string, partitions: readonly (Partition | undefined)[]): void {
  for (const partition of partitions) {
    const { stop } = beat(partition as Partition, { workerId, clock: systemClock });
    ends.defer(stop);
  }
}

test("a worker that beats in any partition is alive, and is listed once", async () => {
  const partitions = partitionsOn([redis.client, redis.client, redis.client]);
  start("in all", partitions.all);
  start("in one", [partitions.all[2]]);
  const ids = async () => (await lastBeatsInAny(partitions)).map(({ id }) => id).toSorted();
  await eventually("both are alive", async () => (await ids()).join() === "in all,in one");
});

test("workers are known while a partition is away, even the first one, and unknown once all are away", async () => {
  for (const connections of [
    [connectToNowhere(), redis.client],
    [redis.client, connectToNowhere()],
  ]) {
    const partitions = partitionsOn(connections);
    for (const { redis: at, keys } of partitions.all)
      if (at === redis.client) await noteSeen(at, keys.workers, { keptMs: 60_000, members: ["a worker"] });
    expect(await lastBeatsInAny(partitions)).toEqual([{ id: "a worker", ageMs: expect.any(Number) }]);
  }
  await expect(lastBeatsInAny(partitionsOn([connectToNowhere(), connectToNowhere()]))).rejects.toMatchObject({
    code: "queue.unavailable",
    message: expect.stringMatching(/^partition \d of 2 cannot be used: /),
  });
});
