import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { spawnChild } from "../../../shared/dev/child.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { adoptDeployment } from "../../../shared/redis/adopt.ts";
import { Deployment, type DeploymentOptions } from "../../../shared/redis/deployment.ts";
import { LAYOUT } from "../../../shared/redis/layout.ts";
import { Partitioned } from "../../../shared/redis/partition.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { useReports } from "../../fixtures/reports.ts";
import { FROM_SOURCE } from "../../support/from-source.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { recordingLog } from "../../support/recording-log.ts";
import { tempDir } from "../../support/temp-dir.ts";

const redis = useRedis();
const reports = useReports(redis);
const ID = "2026-01-01-shop";
const HOUR_MS = 3_600_000;

beforeEach(() => redis.client.flushdb());

function opened(options: DeploymentOptions = { id: ID }, log = silentLogger) {
  const deployment = new Deployment(options, log);
  return { deployment, check: deployment.createCheck(redis.partition, { claims: true }) };
}

const holds = (fields: Record<string, number>) => redis.client.hset(keys.deployment, { id: ID, ...fields });
const restored = async (fields: Record<string, number>) => {
  await redis.client.del(keys.deployment);
  await holds(fields);
};

const adopt = (by: string) =>
  adoptDeployment(redis.partition, {
    id: ID,
    replaced: undefined,
    unauditedSince: undefined,
    act: {
      at: Date.now(),
      action: "adopt",
      deployment: ID,
      by,
      selection: "without audit",
      reason: "a test",
    },
  });

test("the first reports of a process that starts on an old copy do not hide its age from processes that have seen newer data", async () => {
  const now = Date.now();
  await holds({ at: now - 1000 });
  const running = opened();
  await running.check();

  await restored({ at: now - HOUR_MS });
  const fresh = opened();
  await fresh.check();
  await reports.start({ deployments: new Partitioned([fresh.deployment]) });
  await expect(running.check()).rejects.toThrow(/holds an old copy/);
  await expect(fresh.check()).rejects.toThrow(/holds an old copy/);
});

test("the data of another partition is neither remembered nor marked as an old copy", async () => {
  const now = Date.now();
  const ofPartition = (index: number, count: number) =>
    redis.client.set(
      keys.layout,
      JSON.stringify({ layout: LAYOUT, release: "0.1.0", partition: { index, count } }),
    );
  const running = opened();
  await ofPartition(0, 1);
  await holds({ at: now });
  await running.check();
  await ofPartition(2, 4);
  for (const at of [now - HOUR_MS, now + HOUR_MS]) {
    await restored({ at });
    await running.check(); // does not throw: the check of the layout refuses this data
    expect(await redis.client.hget(keys.deployment, "expects")).toBeNull();
  }
  await ofPartition(0, 1);
  await restored({ at: now });
  await running.check();
});

test("an adoption is newer for a process that has seen an adoption and a report by a clock that was ahead", async () => {
  const ahead = Date.now() + HOUR_MS;
  await holds({ adopted: ahead - 10, at: ahead });
  const running = [opened(), opened()];
  await running[0]?.check();
  await holds({ at: ahead + 5000 });
  await running[1]?.check();

  await restored({ at: Date.now() - HOUR_MS });
  for (const { check } of running) await expect(check()).rejects.toThrow(/holds an old copy/);
  expect(Number(await redis.client.hget(keys.deployment, "expects"))).toBe(ahead + 5000);
  await adopt("a test");
  for (const { check } of [...running, opened()]) await check();
});

test("simultaneous adoptions are made one after the other, and each process continues", async () => {
  await holds({ at: Date.now() });
  const running = opened();
  await running.check();
  await redis.client.flushdb();
  await expect(running.check()).rejects.toThrow(/has lost the data/);
  expect(await Promise.all(["one", "two", "three"].map(adopt))).toEqual([undefined, undefined, undefined]);
  await running.check();
  expect(await redis.client.xlen(keys.audit("acts"))).toBe(3);
});

test("a clock that was reset to before the day in the id makes no empty Redis a first start", async () => {
  const later = opened({ id: "2099-01-01-shop" });
  await expect(later.check()).rejects.toThrow(/Redis is empty, but must hold the data/);
});

onlyInLongRun(() => {
  test("processes that share a state file never leave or read half of it", async () => {
    await holds({ at: Date.now() });
    const file = join(tempDir(), "seen.json");
    const child = () =>
      spawnChild({
        command: process.execPath,
        args: [...FROM_SOURCE, new URL("./share-state-file.ts", import.meta.url).pathname, redis.url, file],
        env: process.env,
      });
    const ends = await Promise.all([child(), child(), child(), child()].map(({ exit }) => exit));
    expect(ends.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ id: ID });
    expect(readdirSync(join(file, ".."))).toEqual(["seen.json"]);
  });
});

test("a state file that cannot be written is reported, and stops nothing", async () => {
  await holds({ at: Date.now() });
  const log = recordingLog();
  const { check } = opened({ id: ID, stateFile: join(tempDir(), "absent", "seen.json") }, log);
  await check();
  await check();
  expect(log.events.map(({ event }) => event)).toEqual(["redis.state_not_saved"]);
});
