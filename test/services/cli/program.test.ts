import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { startProcess } from "../../../shared/dev/process.ts";
import { type PrivateRedis, startRedis } from "../../../shared/dev/redis.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { send } from "../../support/http.ts";
import { tempDir } from "../../support/temp-dir.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const program = join(root, "dist/services/cli/main.js");

function postern(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  return spawnSync(process.execPath, [program, ...args], {
    encoding: "utf8",
    env: { ...process.env, ...env },
  });
}

let redis: PrivateRedis;
beforeAll(async () => {
  redis = await startRedis({ env: process.env });
});
afterAll(() => redis.stop());

function configDir(redisUrl: string, endpoint = 'path = "/a"\njob_id = 1\nauth = "none"'): string {
  const dir = tempDir();
  writeFileSync(join(dir, "postern.toml"), `drain_secs = 0\n[redis]\nurl = "${redisUrl}"\n`);
  writeFileSync(join(dir, "webhooks.toml"), `[[endpoints]]\n${endpoint}\n`);
  return dir;
}

describe("the command line", () => {
  test("--help is what the README shows, and exits with 0", () => {
    const { status, stdout } = postern(["--help"]);
    const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");
    expect(status).toBe(0);
    expect(readme).toContain(`\`\`\`\n${stdout.trimEnd()}\n\`\`\``);
  });

  test("--version prints the version of package.json, from the sources as from dist, and exits with 0", () => {
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
    const printed = { status: 0, stdout: `${version}\n`, stderr: "" };
    expect(postern(["--version"])).toMatchObject(printed);
    expect(postern(["-V"])).toMatchObject(printed);
    const source = ["--import", "tsx", join(root, "services/cli/main.ts"), "--version"];
    const ran = spawnSync(process.execPath, source, { encoding: "utf8", cwd: root });
    expect(ran).toMatchObject(printed);
    // The image has the file that the version is read from.
    const dockerfile = readFileSync(join(root, "Dockerfile"), "utf8");
    const image = dockerfile.slice(dockerfile.lastIndexOf("\nFROM "));
    expect(image).toMatch(/^COPY .*\/package\.json \.\/$/m);
  });

  test.each([
    [["nope"]],
    [["webhooks", "--nope"]],
    [["webhooks", "--service-id", "-1"]],
    [["webhooks", "--service-id", "9007199254740992"]],
    [["failed", "replay"]],
    [["check-config", "--nope"]],
  ])("what it does not understand exits with 2 and starts nothing: %j", (args) => {
    const { status, stderr } = postern(args);
    expect(status).toBe(2);
    expect(stderr).not.toContain("    at ");
  });

  test("a service id from the environment is checked too", () => {
    expect(postern(["webhooks"], { POSTERN_SERVICE_ID: "x" })).toMatchObject({ status: 2 });
  });
});

describe("check-config", () => {
  test("exits with 0 on a valid configuration", () => {
    const { status, stdout } = postern(["check-config", "--config-dir", configDir("redis://127.0.0.1:1")]);
    expect([status, stdout]).toEqual([0, expect.stringContaining("is valid; webhooks gateway: 1 endpoints")]);
  });

  test("says what is sold, and what is wrong with the files of the x402 gateway", () => {
    const dir = configDir("redis://127.0.0.1:1");
    const check = () => postern(["check-config", "--config-dir", dir]);
    expect(check().stdout).toContain("x402 gateway: off");

    const address = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
    const token = {
      ...{ network: "eip155:84532", asset: address, pay_to: address, symbol: "USDC", decimals: 6 },
      ...{ rate_per_native_unit: "3200", eip3009_name: "USDC", eip3009_version: "2" },
      rpc_url: "http://127.0.0.1:1",
    };
    const x402 = { public_url: "https://jobs.example.com", facilitator_url: "http://127.0.0.1:1" };
    const tables = {
      x402: { ...x402, quote_secret: "a quote secret for this test", accepted_tokens: [token] },
    };
    writeConfig(dir, { ...tables, job_pricing: { "1": { "7": "1000000000000000" } } });
    expect([check().status, check().stdout]).toEqual([
      0,
      expect.stringContaining("x402 gateway: 1 priced jobs, 1 tokens"),
    ]);

    writeConfig(dir, { x402: tables.x402, job_pricing: { "1": { "7": "0" } } });
    const { status, stderr } = check();
    expect([status, stderr]).toEqual([3, expect.stringContaining("job_pricing.toml: 1.7")]);
  });

  test("exits with 3 and lists everything, as a start does", () => {
    const dir = configDir("http://nowhere", 'path = "a"\njob_id = 1\nauth = "bearer"');
    const checked = postern(["check-config", "--config-dir", dir]);
    const problems = ["redis.url", "endpoints[0].path", "endpoints[0].secret"];
    expect(checked.status).toBe(3);
    for (const problem of problems) expect(checked.stderr).toContain(problem);
    const started = postern(["webhooks", "--config-dir", dir]);
    expect(started.status).toBe(3);
    for (const problem of problems) expect(started.stdout).toContain(problem);
  });
});

describe("postern webhooks", () => {
  const args = async (dir: string) => [
    "webhooks",
    ...["--config-dir", dir, "--bind-address", `127.0.0.1:${await freePort()}`],
    ...["--ops-address", "127.0.0.1:0", "--service-id", "7"],
  ];

  test("serves until SIGTERM and exits with 0; /metrics is on the ops address", async () => {
    const gateway = startProcess({
      name: "gateway",
      args: await args(configDir(redis.url)),
      env: process.env,
    });
    const started = await gateway.waitForEvent("service.started");
    await gateway.waitForEvent("redis.ready");
    expect((await send(String(started["address"]), { path: "/a", body: "x" })).status).toBe(202);
    const metrics = await send(String(started["opsAddress"]), { method: "GET", path: "/metrics" });
    expect(metrics.text).toContain('postern_webhooks_total{path="/a",code="accepted"} 1');
    expect(await gateway.kill("SIGTERM")).toMatchObject({ code: 0 });
  });

  test("a second signal ends it at once, with 1", async () => {
    const dir = configDir(redis.url);
    writeFileSync(join(dir, "postern.toml"), `drain_secs = 300\n[redis]\nurl = "${redis.url}"\n`);
    const gateway = startProcess({ name: "gateway", args: await args(dir), env: process.env });
    await gateway.waitForEvent("service.started");
    process.kill(gateway.pid, "SIGTERM");
    await gateway.waitForEvent("service.stopping");
    expect(await gateway.kill("SIGTERM")).toMatchObject({ code: 1 });
  });

  test("a Redis that cannot keep promises ends the start with 1 and says what to do", async () => {
    const weak = await startRedis({ env: process.env, args: ["--appendfsync", "everysec"] });
    const { status, stdout } = postern(await args(configDir(weak.url)));
    expect(status).toBe(1);
    expect(stdout).toContain("start.redis_not_durable");
    expect(stdout).toContain("appendfsync always");
    await weak.stop();
  });

  test("an address that is taken ends the start with 1", async () => {
    const holder = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => holder.once("listening", resolve));
    const address = `127.0.0.1:${(holder.address() as { port: number }).port}`;
    const taken = ["webhooks", "--config-dir", configDir(redis.url), "--bind-address", address];
    const { status, stdout } = postern([...taken, "--ops-address", "127.0.0.1:0"]);
    expect([status, stdout]).toEqual([1, expect.stringContaining("start.address_unavailable")]);
    holder.close();
  });
});

describe("postern producer", () => {
  test("stops with 0 on SIGTERM though Redis is away, having said once that it is", async () => {
    const mortal = await startRedis({ env: process.env });
    const args = ["producer", "--config-dir", configDir(mortal.url), "--ops-address", "127.0.0.1:0"];
    const producer = startProcess({ name: "producer", args, env: process.env });
    const { opsAddress } = await producer.waitForEvent("service.started");
    await eventually("it is ready", async () => {
      const ready = await send(String(opsAddress), { method: "GET", path: "/readyz" });
      return ready.status === 200;
    });
    await mortal.kill("SIGKILL");
    await producer.waitForEvent("redis.lost");
    expect(await producer.kill("SIGTERM")).toMatchObject({ code: 0 });
    const complaints = producer
      .events()
      .filter(({ event }) => /^(redis\.lost|queue\.error)$/.test(String(event)));
    expect(complaints).toHaveLength(1);
    await mortal.stop();
  });
});
