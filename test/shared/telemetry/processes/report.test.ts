import { hostname } from "node:os";
import { isDeepStrictEqual } from "node:util";
import { beforeEach, expect, test } from "vitest";
import { configHash } from "../../../../shared/config/fingerprint.ts";
import { posternToml } from "../../../../shared/config/postern-toml.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { Deployment } from "../../../../shared/redis/deployment.ts";
import { Partitioned } from "../../../../shared/redis/partition.ts";
import { createReadProcesses } from "../../../../shared/telemetry/processes/list.ts";
import { REPORT_KEPT_MS } from "../../../../shared/telemetry/processes/process.ts";
import { openReports } from "../../../../shared/telemetry/processes/report.ts";
import { type RunnerHealth, runnersOf } from "../../../../shared/telemetry/processes/runner-health.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { useReports } from "../../../fixtures/reports.ts";

const redis = useRedis();
const { start } = useReports(redis);

beforeEach(async () => {
  await redis.client.flushdb();
});

const list = () => createReadProcesses(redis.partition)();
const withDrain = (drain_secs: number) => posternToml({ env: {} }).parse({ drain_secs });

test("a process is listed with its kind, host, release, configuration and durability until it stops", async () => {
  const gateway = await start({ kind: "webhooks", clock: () => 1000 });
  await start({ kind: "producer" });
  const { processes } = await list();
  expect(processes.map(({ kind }) => kind)).toEqual(["webhooks", "producer"]);
  expect(processes[0]).toEqual({
    id: expect.stringMatching(/^webhooks-[0-9a-f]{12}$/),
    kind: "webhooks",
    host: hostname(),
    pid: process.pid,
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    config: expect.stringMatching(/^[0-9a-f]{12}$/),
    durability: "strict",
    clockAheadMs: expect.closeTo(0, -2),
    startedAt: expect.closeTo(1000, -2),
    configuredAt: expect.closeTo(1000, -2),
    configProblem: undefined,
    reloads: 0,
    silentMs: expect.any(Number),
    runners: [],
  });
  await gateway.stop();
  expect((await list()).processes.map(({ kind }) => kind)).toEqual(["producer"]);
  expect(await redis.client.exists(keys.process(String(processes[0]?.id)))).toBe(0);
});

test("a producer reports the health of its runners regularly, and at once when one goes away or returns", async () => {
  const usual = { name: "default", url: "http://runner.test" };
  let health: RunnerHealth = { ...usual, state: "answers", answeredAt: 1000 };
  const producer = await start();
  let changed = () => {};
  producer.watchRunners({
    health: () => [health],
    onChange(listener) {
      changed = listener;
    },
  });
  await producer.flush();
  expect((await list()).processes[0]?.runners).toEqual([health]);
  health = {
    ...usual,
    state: "away",
    since: 2000,
    orEarlier: true,
    reason: "x".repeat(1000),
    answeredAt: 1000,
  };
  changed();
  const reported = [{ ...health, reason: "x".repeat(200) }];
  await eventually("it is reported", async () =>
    isDeepStrictEqual((await list()).processes[0]?.runners, reported),
  );
});

test("a runner of several producers has the worst state in any of them", () => {
  const its = { name: "default", url: "http://runner.test" };
  const seen: RunnerHealth[] = [
    { ...its, state: "answers", answeredAt: 3000 },
    { ...its, state: "away", since: 2000, reason: "connect ECONNREFUSED", answeredAt: 1000 },
    { ...its, state: "unasked" },
    { name: "beta", url: "http://beta.test", state: "answers", answeredAt: 2000 },
    {
      name: "beta",
      url: "http://beta.test",
      state: "failing",
      since: 900,
      reason: "HTTP 502",
      answeredAt: 1000,
    },
  ];
  expect(runnersOf([{ runners: seen }])).toEqual([
    {
      ...{ name: "beta", url: "http://beta.test", state: "failing", since: 900, reason: "HTTP 502" },
      ...{ answeredAt: 2000, producers: 2, unanswered: 0 },
    },
    {
      ...{ ...its, state: "away", since: 2000, reason: "connect ECONNREFUSED", answeredAt: 3000 },
      ...{ producers: 3, unanswered: 1 },
    },
  ]);
});

test("a runner that several producers cannot reach is unreachable since the first of them noticed it", () => {
  const away = { name: "default", url: "http://runner.test", state: "away" } as const;
  const restarted: RunnerHealth = { ...away, since: 9000, orEarlier: true };
  const older: RunnerHealth = { ...away, since: 2000, answeredAt: 1000 };
  const joined = { ...older, producers: 2, unanswered: 2 };
  expect(runnersOf([{ runners: [restarted, older] }])).toEqual([joined]);
  expect(runnersOf([{ runners: [older, restarted] }])).toEqual([joined]);
});

test("processes with a different configuration are recognized by its hash", async () => {
  await start({ postern: withDrain(5) });
  await start({ postern: withDrain(5) });
  await start({ postern: withDrain(6) });
  const hashes = (await list()).processes.map(({ config }) => config);
  expect(new Set(hashes).size).toBe(2);
});

test("a killed process is no longer listed once it has missed its reports", async () => {
  await start();
  const [{ id = "" } = {}] = (await list()).processes;
  const ttl = await redis.client.pttl(keys.process(id));
  expect(ttl).toBeGreaterThan(REPORT_KEPT_MS - 5000);
  expect(ttl).toBeLessThanOrEqual(REPORT_KEPT_MS);
  await redis.client.zadd(keys.processes, Date.now() - REPORT_KEPT_MS - 1, id);
  expect((await list()).processes).toEqual([]);
  await start();
  expect(await redis.client.zscore(keys.processes, id)).toBeNull();
});

test.each([
  ["kind", "other"],
  ["runners", "no JSON"],
  ["runners", '[{"state":"other"}]'],
])("a process whose record has the unreadable %s %s is only counted", async (field, value) => {
  await start();
  const [{ id = "" } = {}] = (await list()).processes;
  await redis.client.hset(keys.process(id), field, value);
  expect(await list()).toEqual({ processes: [], unreadable: 1 });
});

test("a process reports nothing to data of another layout", async () => {
  await redis.client.set(keys.layout, JSON.stringify({ layout: 99, release: "9.9.9" }));
  await start();
  expect(await redis.client.keys("*")).toEqual([keys.layout]);
});

test("a process reports to a full Redis too", async () => {
  await redis.client.config("SET", "maxmemory", "1");
  try {
    await start();
    expect((await list()).processes).toHaveLength(1);
  } finally {
    await redis.client.config("SET", "maxmemory", "0");
  }
});

test("the hash of a configuration depends on its values, in any order, and on no secret", () => {
  const hash = configHash({ a: 1, b: new Map([["x", 10n]]), secret: new Secret("one") });
  expect(configHash({ secret: new Secret("other"), b: new Map([["x", 10n]]), a: 1, c: undefined })).toBe(
    hash,
  );
  expect(configHash({ a: 2, b: new Map([["x", 10n]]), secret: new Secret("one") })).not.toBe(hash);
  expect(configHash({ a: 1, b: new Map([["x", 11n]]), secret: new Secret("one") })).not.toBe(hash);
});

test("a report raises the time of the deployment's last report, and writes nothing to data that the process refuses", async () => {
  const deployment = new Deployment({ id: "2026-01-01-shop", settledMs: 0 }, silentLogger);
  const check = deployment.createCheck(redis.partition, { claims: true });
  await redis.client.hset(keys.deployment, { id: "2026-01-01-shop", at: 5 });
  const report = () => {
    const opened = openReports({
      kind: "webhooks",
      postern: withDrain(5),
      partitions: new Partitioned([redis.partition]),
      deployments: new Partitioned([deployment]),
      log: silentLogger,
    });
    return opened.flush().then(() => opened.stop());
  };
  const at = async () => Number(await redis.client.hget(keys.deployment, "at"));
  await report();
  expect(await at()).toBe(5); // because the process has not read the new time yet
  await check();
  await report();
  const ahead = (await at()) + 60_000;
  expect(ahead - 60_000).toBeGreaterThan(Date.now() - 60_000);
  await redis.client.hset(keys.deployment, "at", ahead); // as by a process whose clock was ahead
  await check();
  await report();
  expect(await at()).toBeGreaterThan(ahead);
  await redis.client.hset(keys.deployment, "at", 5);
  await report();
  expect(await at()).toBe(5);
  await redis.client.hset(keys.deployment, "id", "2026-01-01-other");
  await report();
  expect(await at()).toBe(5);
});
