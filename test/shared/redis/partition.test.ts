import slotOf from "cluster-key-slot";
import { beforeEach, expect, test } from "vitest";
import { callIdInPartitionOf, randomCallId } from "../../../shared/call/call-id.ts";
import { prefixesOf } from "../../../shared/part/places.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { createClaimData, Deployment, newDeploymentId } from "../../../shared/redis/deployment.ts";
import { PREFIX } from "../../../shared/redis/keys.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { useReports } from "../../fixtures/reports.ts";
import { partitionsOver } from "../../support/partitions.ts";

const redis = useRedis();
const reports = useReports(redis);

beforeEach(() => redis.client.flushdb());

test.each([1, 2, 4, 7, 64])("each of %i partitions has its own part of the slots of a Cluster", (count) => {
  const prefixes = prefixesOf("postern", count);
  const parts = prefixes.map((prefix) => Math.floor((slotOf(prefix) * count) / 16_384));
  expect(prefixes[0]).toBe(PREFIX);
  expect(parts.toSorted((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, part) => part));
});

test("ids are spread over all partitions, and an id derived from another is in the same partition", () => {
  const partitions = partitionsOver(redis.client, 64);
  const counts = new Map<number, number>();
  for (let n = 0; n < 64_000; n++) {
    const id = randomCallId();
    const { index } = partitions.of(id);
    counts.set(index, (counts.get(index) ?? 0) + 1);
    expect(partitions.of(callIdInPartitionOf(id, "callback", String(n))).index).toBe(index);
  }
  expect(counts.size).toBe(64);
  expect(Math.min(...counts.values())).toBeGreaterThan(800);
});

/** The partitions as a process of this deployment sees them that has just started, and its check of each partition. */
function started(options: { id?: string } = {}, count = 4) {
  const partitions = partitionsOver(redis.client, count);
  const deployments = partitions.map(
    () => new Deployment({ settledMs: 0, ...options }, silentLogger, partitions.control),
  );
  const checks = partitions.map((partition, index) => createClaimData(partition, deployments.all[index]));
  return { partitions, deployments, check: (index: number) => checks.all[index]?.() };
}

test("each partition is claimed by its index, and another number of partitions is refused with an explanation", async () => {
  const four = started();
  for (const index of [3, 0, 1, 2]) await four.check(index);
  await expect(started({}, 2).check(0)).rejects.toMatchObject({
    code: "start.layout_mismatch",
    message: expect.stringContaining("Redis holds partition 0 of 4, but [redis] makes it partition 0 of 2"),
  });
  const [, first, second] = four.partitions.all;
  await redis.client.copy(first!.keys.layout, second!.keys.layout, "REPLACE");
  await expect(started().check(2)).rejects.toThrow(
    "Redis holds partition 1 of 4, but [redis] makes it partition 2 of 4",
  );
});

test("an empty partition that had begun is refused, even by a process that has seen nothing of a new deployment", async () => {
  const id = newDeploymentId();
  const first = started({ id });
  for (const index of [0, 1, 2, 3]) await first.check(index);
  await expect.poll(() => redis.client.smembers(first.partitions.control.keys.partitions)).toHaveLength(3);
  const { keys } = first.partitions.all[2]!;
  await redis.client.del(keys.layout, keys.deployment);

  const next = started({ id });
  await next.check(1);
  await expect(next.check(2)).rejects.toMatchObject({
    code: "start.wrong_redis",
    message: expect.stringContaining(`Redis is empty, but must hold the data of deployment ${id}`),
  });
  expect(await redis.client.exists(keys.layout, keys.deployment)).toBe(0);
});

test("a partition has not begun if its claim fails, or if partition 0 belongs to another deployment", async () => {
  const id = newDeploymentId();
  const { partitions, check } = started({ id });
  await check(0);
  const [{ keys: ofControl }, { keys }] = partitions.all as [Partition, Partition];
  await redis.client.hset(ofControl.deployment, "id", "2026-11-07-another");
  for (const index of [1, 2, 1, 2]) await check(index);
  expect(await redis.client.exists(ofControl.partitions)).toBe(0);

  await redis.client.hset(ofControl.deployment, "id", id);
  await redis.client.set(keys.layout, JSON.stringify({ layout: 5, release: "0.0.9" }));
  await redis.client.hset(keys.deployment, { id, at: Date.now() });
  await expect(check(1)).rejects.toMatchObject({ code: "start.layout_mismatch" });
  expect(await redis.client.exists(ofControl.partitions)).toBe(0);

  await redis.client.del(keys.layout, keys.deployment);
  await started({ id }).check(1);
  await expect.poll(() => redis.client.smembers(ofControl.partitions)).toEqual(["1"]);
});

test("a report raises the time of the last report in each partition, so that an old copy of any of them is refused", async () => {
  const { partitions, deployments, check } = started();
  for (const index of [0, 1, 2, 3]) await check(index);
  const times = () => Promise.all(partitions.all.map(({ keys }) => redis.client.hget(keys.deployment, "at")));
  const before = await times();
  await reports.start({ partitions, deployments });
  await expect
    .poll(async () => (await times()).every((time, at) => Number(time) > Number(before[at])))
    .toBe(true);
  for (const index of [0, 1, 2, 3]) await check(index);
  await redis.client.hset(partitions.all[3]!.keys.deployment, "at", String(before[3]));
  await check(2);
  await expect(check(3)).rejects.toThrow("Redis holds an old copy of deployment");
});
