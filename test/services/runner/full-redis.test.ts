import { expect, test } from "vitest";
import { createRouter } from "../../../services/runner/runner.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { runnerKeys, useOwnRedis } from "../../fixtures/redis.ts";
import { type TestRunner, useRunners } from "../../fixtures/runners.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { gate, gatedBoth, hasLogged, longJob, stateOf } from "./gated-jobs.ts";
import { usedBytes } from "./stores.ts";

const redis = useOwnRedis();
const runners = useRunners({ redis, fresh: "test" });

const MIB = 1024 * 1024;

/** Limits Redis' memory to what it uses now and `bytes` more. */
const leaveRoom = async (bytes: number) =>
  redis.client.config("SET", "maxmemory", (await usedBytes(redis)) + bytes);
const endlessRoom = () => redis.client.config("SET", "maxmemory", 0);

const jobs = createRouter().job(1, { name: "large", handler: () => ({ body: "x".repeat(100_000) }) });

async function offerAll(runner: TestRunner, keys: readonly string[]): Promise<void> {
  for (const key of keys) await runner.offer(key);
}

onlyInLongRun(() => {
  test("in a nearly full Redis the oldest kept answers are evicted until there is space, and every call is still known", async () => {
    const runner = await runners.start({ jobs });
    const keys = Array.from({ length: 200 }, (_, i) => `k-${i}`);
    await offerAll(runner, keys);
    const used = await usedBytes(redis);
    await redis.client.config("SET", "maxmemory", Math.round(used / 0.9));
    await eventually("answers are kept again", () => hasLogged(runner, "answers.eviction_ended"));
    expect(await usedBytes(redis)).toBeLessThan((0.675 * used) / 0.9);
    const kept = await redis.client.exists(...keys.map(runnerKeys.answer));
    expect(kept).toBeGreaterThan(100);
    expect(await redis.client.exists(...keys.slice(-kept).map(runnerKeys.answer))).toBe(kept);
    expect((await runner.offer("k-0")).headers["idempotent-body"]).toBe("forgotten");
    const logged = runner.log.events.filter(({ event }) => event.startsWith("answers."));
    expect(logged.map(({ event }) => event)).toEqual(["answers.evicted", "answers.eviction_ended"]);
    expect(logged[1]?.fields).toMatchObject({ letGo: keys.length - kept });
    await endlessRoom();
  });

  test("while Redis is nearly full of other data, no answer is kept, and calls are still accepted", async () => {
    await redis.client.setrange("something else", 32 * MIB, "x");
    const runner = await runners.start({ jobs });
    await leaveRoom(8 * MIB);
    await eventually("answers are evicted", () => hasLogged(runner, "answers.evicted"));
    expect((await runner.offer("k")).text).toHaveLength(100_000);
    expect((await runner.offer("k")).headers["idempotent-body"]).toBe("forgotten");
    await endlessRoom();
    await eventually("answers are kept again", () => hasLogged(runner, "answers.eviction_ended"));
  });
});

test("a Redis without maxmemory never counts as too full, and answers are kept up to their own limit", async () => {
  const runner = await runners.start({ jobs, limits: { redis_memory_ratio_max: 0.000_001 } });
  await endlessRoom();
  await offerAll(runner, ["a", "b"]);
  expect((await runner.offer("a")).text).toHaveLength(100_000);
});

test("a full Redis accepts no new call, and calls that were accepted before continue, end and are remembered", async () => {
  const { short, long, jobs } = gatedBoth();
  const runner = await runners.start({ jobs, lease_ms: 300, concurrency: 2 });
  const answered = runner.offer("short");
  const longOnes = ["long-1", "long-2", "long-3"];
  for (const key of longOnes) await runner.offer(key, { job: 2 });
  await eventually("a short one and two long ones run", () => short.runs === 1 && long.runs === 2);
  await redis.client.config("SET", "maxmemory", 1);
  expect((await runner.offer("new")).json()["code"]).toBe("runner.throttled");
  const since = Date.now();
  await eventually("three leases have passed", () => Date.now() - since > 900);
  expect([short.runs, long.runs]).toEqual([1, 2]);
  expect(await Promise.all([stateOf(runner, "short"), stateOf(runner, "long-1")])).toEqual([
    "running",
    "running",
  ]);
  short.open();
  long.open();
  expect((await answered).text).toBe("run 1");
  for (const key of longOnes)
    await eventually(`${key} is done`, async () => (await stateOf(runner, key)) === "done");
  await endlessRoom();
  expect((await runner.offer("short")).status).toBe(200);
  expect([short.runs, long.runs]).toEqual([1, 3]);
});

test("a long call that fails in a full Redis is tried again, and kept as failed after its last attempt", async () => {
  const at = gate();
  const jobs = longJob(async () => {
    at.runs += 1;
    await at.opened;
    throw new Error("no luck");
  });
  const long_backoff = { base_ms: 1, cap_ms: 1 };
  const runner = await runners.start({ jobs, long_attempts: 2, long_backoff });
  await runner.offer("k");
  await eventually("it runs", () => at.runs === 1);
  await redis.client.config("SET", "maxmemory", 1);
  at.open();
  await eventually("it has failed", async () => (await stateOf(runner, "k")) === "failed");
  expect(at.runs).toBe(2);
  await endlessRoom();
});
