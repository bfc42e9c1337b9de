import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { ProcessKind } from "../../../shared/telemetry/processes/process.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser, keys, useOwnRedis } from "../../fixtures/redis.ts";
import { useReports } from "../../fixtures/reports.ts";
import { clockAhead } from "../../support/clock-ahead.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { runHereWith } from "./run-here.ts";

const redis = useOwnRedis();
const fixture = useFailedCalls({ redis });
const reports = useReports(redis);
afterEach(async () => {
  await fixture.redis.client.config("SET", "appendfsync", "always");
});
const urlOf = (user: ProcessKind) => asUser(fixture.redis.url, user);
const postern = usePostern(() => ({ postern: { redis: { url: urlOf("operator") } } }));
const here = runHereWith(postern);

test("postern status exits with 0 while Redis is durable, and otherwise with 1 and advice", async () => {
  await fixture.fail([{}]);
  const well = await here(["status", "-o", "json"]);
  expect(well.code).toBe(0);
  expect(JSON.parse(well.stdout)).toMatchObject({
    queues: [
      { origin: "webhook", failed: 1, oldest_age_ms: null },
      { origin: "x402" },
      { origin: "callback" },
    ],
    redis: { durability: "strict", proof: "always" },
  });
  await fixture.redis.client.config("SET", "appendfsync", "everysec");
  const broken = await here(["status"]);
  expect(broken.code).toBe(1);
  expect(broken.stdout).toMatch(
    /^ORIGIN +WAITING +DELAYED +HELD +IN FLIGHT +FAILED .*\nwebhook +0 +0 +0 +0 +1/m,
  );
  expect(broken.stdout).toMatch(
    /^last hour \(up to 10 s behind\)\nP50 and P99 are times from accepted to injected:\nORIGIN +ACCEPTED +REFUSED/m,
  );
  expect(broken.stdout).toMatch(/^webhook .* -( +-){3}$/m); // no process reports its counts
  expect(broken.stdout).toMatch(/^producers alive: 0$/m);
  expect(broken.stdout).toMatch(/NOT KEPT.*appendfsync always/);
});

onlyInLongRun(() => {
  test("postern status finds a running dev only if no directory is given and no Redis answers at the default", async () => {
    const runtime = tempDir();
    mkdirSync(join(runtime, "postern"));
    const dev = { pid: process.pid, config_dir: postern.configDir };
    writeFileSync(join(runtime, "postern/dev.json"), JSON.stringify(dev));
    const status = (url: string, ...args: string[]) => {
      const cwd = tempDir();
      writeConfig(join(cwd, "config"), { postern: { redis: { url } } });
      const env = { XDG_RUNTIME_DIR: runtime, POSTERN_CONFIG_DIR: undefined };
      return postern.run(["status", ...args], { cwd, env });
    };
    const away = "redis://127.0.0.1:1";
    expect(await status(away)).toMatchObject({
      code: 0,
      stderr: `this is the running postern dev (process ${process.pid}): --config-dir ${postern.configDir}\n`,
    });
    expect(await status(urlOf("operator"))).toMatchObject({ code: 0, stderr: "" });
    const given = await status(away, "--config-dir", "config");
    expect([given.code, given.stderr]).toEqual([
      1,
      expect.stringMatching(/^Redis at 127\.0\.0\.1:1 cannot /),
    ]);
  });
});

test("postern status shows the used share of Redis' maxmemory, and what it means if there is no limit", async () => {
  const { client } = fixture.redis;
  expect((await here(["status"])).stdout).toMatch(
    /MB used\. maxmemory is 0 \(no limit\), so Redis never reports that it is full\. To set a limit, run: redis-cli CONFIG SET maxmemory <bytes>/,
  );
  await client.config("SET", "maxmemory", "100mb");
  try {
    const [shown, json] = await Promise.all([here(["status"]), here(["status", "-o", "json"])]);
    expect(shown.stdout).toMatch(/MB used, \d+(\.\d+)? % of maxmemory/);
    const { redis } = JSON.parse(json.stdout);
    expect(redis).toMatchObject({ max_memory_bytes: 104_857_600, used_memory_bytes: expect.any(Number) });
  } finally {
    await client.config("SET", "maxmemory", "0");
  }
});

test("postern status shows the work of all processes in the last hour, the running processes, and wrong clocks", async () => {
  const webhooks = { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] };
  const tables = (drain_secs: number, user: ProcessKind = "webhooks") => ({
    postern: { redis: { url: urlOf(user) }, drain_secs },
    webhooks,
  });
  const ports = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  postern.configure(tables(0));
  const gateway = postern.start(["webhooks", "--service-id", "7", ...ports]);
  postern.configure(tables(1));
  const env = clockAhead(-7_200_000);
  const other = postern.start(["webhooks", "--service-id", "7", ...ports], { env });
  const { address } = await gateway.waitForEvent("service.started");
  await Promise.all([gateway, other].map((each) => each.waitForEvent("redis.ready")));
  expect((await fetch(`http://${address}/a`, { method: "POST", body: "hello" })).status).toBe(202);
  expect((await fetch(`http://${address}/a`)).status).toBe(405);

  postern.configure(tables(0, "operator"));
  const running = await eventually("both have reported", async () => {
    const { stdout } = await here(["status"]);
    return stdout.split("\n").filter((line) => /^webhooks .* strict /.test(line)).length === 2
      ? stdout
      : undefined;
  });
  expect(running).toMatch(/^webhooks: 2 different configurations are running$/m);
  expect(running.match(/: its clock is .*/g)).toEqual([
    ": its clock is 2h0m behind the clock of Redis; synchronize both machines with NTP",
  ]);

  await gateway.kill("SIGTERM");
  await other.kill("SIGKILL");
  const { last_hour, processes, processes_unreadable } = JSON.parse(
    (await here(["status", "-o", "json"])).stdout,
  );
  expect(last_hour).toMatchObject([
    { origin: "webhook", accepted: 1, refused: 1, injected: 0, failed: 0, p50_ms: null, p99_ms: null },
    { origin: "x402", accepted: 0, refused: 0 },
    { origin: "callback", injected: 0, failed: 0 },
  ]);
  expect(processes).toMatchObject([{ kind: "webhooks", durability: "strict", pid: other.pid }]);
  expect(processes[0].clock_ahead_ms).toBeCloseTo(-7_200_000, -4);
  expect(processes_unreadable).toBe(0);
  await fixture.redis.client.hset(keys.process(processes[0].id), "kind", "other");
  expect((await here(["status"])).stdout).toMatch(/^not shown: 1 process with an unreadable record$/m);
});

test("postern status shows the calls of the last minute, and says that they are of the last minute", async () => {
  const { log, flush } = await reports.start({ clock: () => Date.now() - 30_000 });
  for (let i = 0; i < 6; i++) log.info("webhook.accepted", { path: "/a", jobId: 1, replayed: false });
  const call = { origin: "webhook", serviceId: 7, jobId: 1, callId: "c_1", attempt: 1, injectMs: 1 };
  for (let i = 0; i < 2; i++) log.info("call.injected", { ...call, endToEndMs: 40 });
  log.error("call.failed", { ...call, code: "runner.refused" });
  await flush();
  const { queues } = JSON.parse((await here(["status", "-o", "json"])).stdout);
  expect(queues).toMatchObject([
    {
      origin: "webhook",
      last_minute: { accepted: 6, refused: 0, injected: 2, failed: 1 },
      ...{ accepted_per_minute: 6, injected_per_minute: 2, failed_per_minute: 1 },
    },
    {
      origin: "x402",
      ...{ accepted_per_minute: 0, injected_per_minute: 0, failed_per_minute: 0 },
    },
    { origin: "callback" },
  ]);
  const rates = Object.keys(queues[0]).filter((name) => name.includes("_per_"));
  expect(rates).toEqual(["accepted_per_minute", "injected_per_minute", "failed_per_minute"]);
  const { stdout } = await here(["status"]);
  expect(stdout).toMatch(/^webhook +(\d+ +){5}\S+ +6 +2 +1$/m);
  expect(stdout).toMatch(/^queues \(\/MIN: calls of the last minute, up to 20 s behind\):\nORIGIN /m);
});

test("postern status shows the producers' runners, and whether they answer", async () => {
  const runner = { url: "http://127.0.0.1:9/jobs" };
  postern.configure({ postern: { redis: { url: urlOf("producer") }, runner } });
  await Promise.all([1, 2, 3].map(() => fixture.add()));
  const producer = postern.start(["producer", "--ops-address", "127.0.0.1:0"]);
  await producer.waitForEvent("runner.down");
  postern.configure({ postern: { redis: { url: urlOf("operator") }, runner } });
  const shown = await eventually("it has told of it", async () => {
    const { stdout } = await here(["status"]);
    return /^default +unreachable +- +1 +http:\/\/127\.0\.0\.1:9\/jobs: .*ECONNREFUSED/m.test(stdout);
  });
  expect(shown).toBe(true);
  const { runners } = JSON.parse((await here(["status", "-o", "json"])).stdout);
  expect(runners).toEqual([
    {
      ...{ name: "default", url: runner.url, state: "away", producers: 1, unanswered: 1 },
      ...{
        since: expect.any(String),
        or_earlier: true,
        reason: expect.stringContaining("ECONNREFUSED"),
        answered_at: null,
      },
    },
  ]);
});

test("postern status names an endpoint that refuses many requests, with the reason and the command that lists them", async () => {
  const { log, flush } = await reports.start();
  const refused = { path: "/hooks/a", code: "webhook.credential_rejected", reason: "mismatch" };
  log.warn("webhook.refused", { ...refused, times: 6 });
  await flush();
  expect((await here(["status"])).stdout).toContain(
    "refused in the last 10 min: 6 of 6 webhooks at /hooks/a (webhook.credential_rejected, mismatch; postern rejected list --endpoint /hooks/a)\n",
  );
});
