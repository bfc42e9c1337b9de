import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { ConfigTables } from "../../../shared/config/config-tables.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { startRedis } from "../../../shared/dev/redis.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { LAYOUT } from "../../../shared/redis/layout.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser, keys, useRedis } from "../../fixtures/redis.ts";
import { FROM_SOURCE } from "../../support/from-source.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { runHere } from "./run-here.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const ends = useEnds();
const redis = useRedis();
const postern = usePostern(() => tables(asUser(redis.url, "webhooks")));

function tables(redisUrl: string, drainSecs = 0): ConfigTables {
  return {
    postern: { drain_secs: drainSecs, redis: { url: redisUrl } },
    webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
  };
}

const webhooks = async () => [
  ...["webhooks", "--bind-address", `127.0.0.1:${await freePort()}`],
  ...["--ops-address", "127.0.0.1:0", "--service-id", "7"],
];

test("postern --help prints the commands in help.txt, and exits with 0; -u writes it again", async () => {
  const { code, stdout } = await postern.run(["--help"]);
  expect(code).toBe(0);
  await expect(stdout).toMatchFileSnapshot("help.txt");
});

const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
const printed = { stdout: `${version}\n`, stderr: "" };

test("postern --version prints the version of package.json", async () => {
  expect(await postern.run(["--version"])).toMatchObject({ code: 0, ...printed });
  expect(await runHere(["-V"])).toEqual(await runHere(["--version"]));
});

test("an unknown command exits with 2, without a stack trace", async () => {
  const { code, stderr } = await postern.run(["nope"]);
  expect(code).toBe(2);
  expect(stderr).not.toContain("    at ");
});

onlyInLongRun(() => {
  test("an invalid service id in the environment exits with 2, and the message names its variable", async () => {
    const { code, stderr } = await postern.run(["webhooks"], { env: { POSTERN_SERVICE_ID: "x" } });
    const name = "option '--service-id <n>' value 'x' from env 'POSTERN_SERVICE_ID'";
    const problem = `error: ${name} is invalid: it must be an integer from 0 to 2^53-1; for example 7\n`;
    expect([code, stderr]).toEqual([2, expect.stringContaining(problem)]);
  });

  test("postern webhooks exits with 3 on an invalid configuration, and logs every problem", async () => {
    postern.configure({
      postern: { redis: { url: "http://nowhere" } },
      webhooks: { endpoints: [{ path: "a", job_id: 1, auth: "bearer" }] },
    });
    const { code, stdout } = await postern.run(["webhooks"]);
    expect(code).toBe(3);
    for (const problem of ["redis.url", 'endpoint \\"a\\": path', 'endpoint \\"a\\": secret'])
      expect(stdout).toContain(problem);
  });
});

test("postern webhooks serves until SIGTERM and exits with 0, with its metrics on the ops address", async () => {
  const gateway = postern.start(await webhooks());
  const started = await gateway.waitForEvent("service.started");
  await gateway.waitForEvent("redis.ready");
  expect((await send(String(started["address"]), { path: "/a", body: "x" })).status).toBe(202);
  const metrics = await send(String(started["opsAddress"]), { method: "GET", path: "/metrics" });
  expect(metrics.text).toContain('postern_webhooks_total{path="/a",code="accepted"} 1');
  expect(await gateway.kill("SIGTERM")).toMatchObject({ code: 0 });
});

onlyInLongRun(() => {
  test("a second SIGTERM ends a gateway that drains at once, with exit code 1", async () => {
    postern.configure(tables(asUser(redis.url, "webhooks"), 300));
    const gateway = postern.start(await webhooks());
    await gateway.waitForEvent("service.started");
    process.kill(gateway.pid, "SIGTERM");
    await gateway.waitForEvent("service.stopping");
    expect(await gateway.kill("SIGTERM")).toMatchObject({ code: 1 });
  });
});

test("a gateway exits with 1 at its start if Redis is not durable, and the log says what to do", async () => {
  const weak = await startRedis({ env: process.env, args: ["--appendfsync", "everysec"] });
  ends.defer(() => weak.stop());
  postern.configure(tables(weak.url));
  const { code, stdout } = await postern.run(await webhooks());
  expect(code).toBe(1);
  expect(stdout).toContain("start.redis_not_durable");
  expect(stdout).toContain("appendfsync always");
});

onlyInLongRun(() => {
  test("a producer whose Redis is unavailable logs this once, and exits with 0 on SIGTERM", async () => {
    const mortal = await startRedis({ env: process.env });
    ends.defer(() => mortal.stop());
    // It waits for calls in flight as long as an injection may take.
    postern.configure({ postern: { redis: { url: mortal.url }, runner: { timeout_ms: 300 } } });
    const producer = postern.start(["producer", "--ops-address", "127.0.0.1:0"]);
    const { opsAddress } = await producer.waitForEvent("service.started");
    await eventually("it is ready", async () => {
      const ready = await send(String(opsAddress), { method: "GET", path: "/readyz" });
      return ready.status === 200;
    });
    await mortal.kill("SIGKILL");
    await producer.waitForEvent("redis.unreachable");
    expect(await producer.kill("SIGTERM")).toMatchObject({ code: 0 });
    const complaints = producer
      .events()
      .filter(({ event }) => /^(redis\.unreachable|queue\.error)$/.test(String(event)));
    expect(complaints).toHaveLength(1);
  });

  test("postern --version also prints the version of package.json when it runs from the sources", () => {
    const source = [...FROM_SOURCE, join(root, "services/cli/main.ts"), "--version"];
    const ran = spawnSync(process.execPath, source, { encoding: "utf8", cwd: root });
    expect(ran).toMatchObject({ status: 0, ...printed });
  });

  test("a gateway exits with 1 at its start if Redis has another layout, and the log names the release for it", async () => {
    await redis.client.set(keys.layout, JSON.stringify({ layout: LAYOUT + 1, release: "9.8.7" }));
    const { code, stdout } = await postern.run(await webhooks());
    await redis.client.flushdb();
    expect(code).toBe(1);
    expect(stdout).toContain("start.layout_mismatch");
    expect(stdout).toContain("Drain Redis with release 9.8.7");
  });

  test("a gateway exits with 1 at its start if its address is in use", async () => {
    const holder = createServer().listen(0, "127.0.0.1");
    ends.defer(() => holder.close());
    await new Promise((resolve) => holder.once("listening", resolve));
    const address = `127.0.0.1:${(holder.address() as { port: number }).port}`;
    const taken = ["webhooks", "--bind-address", address, "--ops-address", "127.0.0.1:0"];
    const { code, stdout } = await postern.run(taken);
    expect([code, stdout]).toEqual([1, expect.stringContaining("start.address_unavailable")]);
  });

  test.each(["localhost:", "", ":"])(
    'an address "%s" with only a port means 127.0.0.1, as the bind address and as the ops address',
    async (form) => {
      const [port, opsPort] = [await freePort(), await freePort()];
      const addresses = ["--bind-address", `${form}${port}`, "--ops-address", `${form}${opsPort}`];
      const started = await postern.start(["webhooks", ...addresses]).waitForEvent("service.started");
      expect(started).toMatchObject({ address: `127.0.0.1:${port}`, opsAddress: `127.0.0.1:${opsPort}` });
    },
  );
});

test.each([
  ["0", "must have a host and a port"],
  ["localhost", "has no port"],
  ["::1:9090", "must have its IPv6 address in brackets"],
  ["http://127.0.0.1:9090", "is a URL or a path"],
])(
  "the listening address %s exits with 2, and the message says what it must be",
  async (address, problem) => {
    const { code, stderr } = await runHere(["webhooks", "--bind-address", address]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining(
        `error: option '--bind-address <host:port>' value '${address}' is invalid: it ${problem}`,
      ),
    ]);
  },
);
