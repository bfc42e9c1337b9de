import { afterEach, expect, test } from "vitest";
import { type ConfigTables, type Table, writeConfig } from "../../../shared/config/config-tables.ts";
import type { PosternProcess } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser, useOwnRedis } from "../../fixtures/redis.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

const redis = useOwnRedis();
const postern = usePostern();
afterEach(() => redis.client.flushdb());

const tablesOf = (runner: Table): ConfigTables => ({
  postern: { redis: { url: asUser(redis.url, "runner") }, runner },
});

/** Starts `postern runner` with its example jobs: job 1 answers with the body, and job 3 runs for as long as the body says. */
async function start() {
  postern.configure(tablesOf({}));
  const anyPort = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const runner = postern.start(["runner", ...anyPort]);
  const { address, opsAddress } = await runner.waitForEvent("service.started");
  await runner.waitForEvent("redis.ready");
  const offer = (key: string, job: number, body: string) =>
    send(String(address), { path: `/jobs/${job}`, headers: { "Idempotency-Key": key }, body });
  const metrics = async () => (await send(String(opsAddress), { method: "GET", path: "/metrics" })).text;
  return { runner, offer, metrics };
}

async function reload(runner: PosternProcess, tables: ConfigTables): Promise<void> {
  writeConfig(postern.configDir, tables);
  const before = runner.events("config.reloaded").length;
  process.kill(runner.pid, "SIGHUP");
  await eventually("the configuration is in force", () => runner.events("config.reloaded").length > before);
}

const steps = (count: number) => JSON.stringify({ steps: count, ms_per_step: 20 });

test("a reload of the runner applies its settings, and a running long job continues to its end", async () => {
  const { runner, offer } = await start();
  expect((await offer("long", 3, steps(100))).status).toBe(202);
  await runner.waitForEvent("job.progressed");
  await reload(runner, tablesOf({ secret: "a secret that producer and runner share" }));
  expect(runner.events("job.finished")).toEqual([]);
  expect((await offer("unsigned", 1, "x")).status).toBe(401);
  await runner.waitForEvent("job.finished");
  const seen = runner.events("job.progressed").map(({ step }) => step);
  expect(seen).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
  expect(await runner.kill("SIGTERM")).toMatchObject({ code: 0 });
});

test("the runner's metrics count runs by job and outcome, refused requests, and work in flight", async () => {
  const { runner, offer, metrics } = await start();
  await offer("a", 1, "x");
  await offer("a", 1, "x");
  await offer("b", 9, "x");
  await offer("c", 3, steps(1000));
  await runner.waitForEvent("job.progressed");
  const text = await metrics();
  for (const line of [
    'postern_runner_run_duration_seconds_count{name="echo",outcome="finished"} 1',
    "postern_runner_replayed_total 1",
    'postern_runner_refused_total{code="runner.job_unknown"} 1',
    'postern_runner_slots_in_use{kind="long"} 1',
    'postern_runner_slots_in_use{kind="requests"} 0',
    "postern_runner_due_calls 0",
    "postern_runner_due_age_seconds 0",
    "postern_runner_undelivered_results 0",
    "postern_ready 1",
  ])
    expect(text.split("\n")).toContain(line);
});

onlyInLongRun(() => {
  test("a stopping runner releases a long job that began before its reload", async () => {
    const { runner, offer } = await start();
    await offer("long", 3, steps(1000));
    await runner.waitForEvent("job.progressed");
    await reload(runner, tablesOf({ concurrency: 7 }));
    expect(await runner.kill("SIGTERM")).toMatchObject({ code: 0 });
    expect(runner.events("job.interrupted")).toMatchObject([{ callId: "long" }]);
    expect(await redis.client.hget("{postern-runner}:call:long", "st")).toBe("STORED");
  });
});
