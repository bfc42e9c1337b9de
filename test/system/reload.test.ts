import { generateKeyPairSync, sign } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { Agent, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type ConfigTables, writeConfig } from "../../shared/config/config-tables.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import type { PosternProcess } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { useFakeRunner } from "../fixtures/fake-runner.ts";
import { usePostern } from "../fixtures/postern.ts";
import { useOwnRedis, useRedis } from "../fixtures/redis.ts";
import { send } from "../support/http.ts";
import { LONG_RUN, onlyInLongRun } from "../support/long-run.ts";

const redis = useRedis();
const postern = usePostern();
const runner = useFakeRunner();

const FREE_PORTS = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];

type Endpoint = { path: string; job_id: number; auth: string; secret?: string[] } & Partial<
  Record<"issuer" | "audience" | "jwks", string>
>;
const OPEN: Endpoint = { path: "/open", job_id: 1, auth: "none" };
const withToken = (...secret: string[]): Endpoint => ({
  ...{ path: "/token", job_id: 2, auth: "bearer" },
  secret: secret.map((each) => `${each}-of-thirty-two-or-more-characters`),
});

const tablesOf = (...endpoints: Endpoint[]): ConfigTables => ({
  postern: { drain_secs: 0, redis: { url: redis.url }, runner: { url: runner.url } },
  webhooks: { endpoints },
});

/** Starts a gateway with these endpoints. Resolves with its process and its address. */
async function startGateway(...endpoints: Endpoint[]) {
  postern.configure(tablesOf(...endpoints));
  const gateway = postern.start([
    "webhooks",
    "--bind-address",
    "127.0.0.1:0",
    "--ops-address",
    "127.0.0.1:0",
  ]);
  const { address, opsAddress } = await gateway.waitForEvent("service.started");
  return { gateway, address: String(address), opsAddress: String(opsAddress) };
}

/** Sends a SIGHUP. Resolves with the event that reports its outcome. */
async function reload(gateway: PosternProcess) {
  const seen = () => [...gateway.events("config.reloaded"), ...gateway.events("config.reload_failed")].length;
  const before = seen();
  process.kill(gateway.pid, "SIGHUP");
  await eventually("the gateway has read its configuration", () => seen() > before);
  return gateway.events().findLast(({ event }) => String(event).startsWith("config.reload"));
}

const statusOf = async (address: string, path: string, headers = {}) =>
  (await send(address, { path, headers, body: "{}" })).status;

const readyz = async (opsAddress: string) =>
  (await send(opsAddress, { method: "GET", path: "/readyz" })).json() as { config: Record<string, string> };

test("a SIGHUP applies new endpoints and secrets, and a wrong configuration changes nothing", async () => {
  const { gateway, address, opsAddress } = await startGateway(OPEN);
  const first = (await readyz(opsAddress)).config;
  expect(await statusOf(address, "/token")).toBe(404);

  writeConfig(postern.configDir, tablesOf(withToken("old", "new")));
  expect(await reload(gateway)).toMatchObject({ event: "config.reloaded", cause: "SIGHUP" });
  expect(await statusOf(address, "/open")).toBe(404);
  const token = (name: string) => ({ Authorization: `Bearer ${name}-of-thirty-two-or-more-characters` });
  expect(await statusOf(address, "/token", token("old"))).toBe(202);
  const second = (await readyz(opsAddress)).config;
  expect(second["hash"]).not.toBe(first["hash"]);

  writeConfig(postern.configDir, tablesOf(withToken("new")));
  await reload(gateway);
  expect(await statusOf(address, "/token", token("old"))).toBe(401);
  expect(await statusOf(address, "/token", token("new"))).toBe(202);

  writeFileSync(join(postern.configDir, "webhooks.toml"), "endpoints = 3");
  expect(await reload(gateway)).toMatchObject({
    event: "config.reload_failed",
    code: "start.config_invalid",
    reason: expect.stringContaining("webhooks.toml:1"),
  });
  expect(await statusOf(address, "/token", token("new"))).toBe(202);
  expect((await readyz(opsAddress)).config["problem"]).toContain("webhooks.toml:1");
});

const RELOADS = LONG_RUN ? 200 : 4;
const SENDERS = LONG_RUN ? 8 : 2;

test(`${RELOADS} reloads of a gateway and a producer under load, half of them wrong, refuse no request and lose or double no call`, {
  timeout: 180_000,
}, async () => {
  const { gateway, address } = await startGateway(OPEN);
  const producer = postern.start(["producer", "--ops-address", "127.0.0.1:0"]);
  await producer.waitForEvent("service.started");
  let isOver = false;
  const ids: string[] = [];
  const others = new Set<number>();
  const agent = new Agent({ keepAlive: true });
  const senders = Array.from({ length: SENDERS }, async () => {
    while (!isOver) {
      const { status, json } = await send(address, { path: OPEN.path, body: "{}", agent });
      if (status === 202) ids.push(String(json()["call_id"]));
      else others.add(status);
    }
  });
  for (let i = 0; i < RELOADS; i++) {
    if (i % 2 === 0) writeConfig(postern.configDir, tablesOf(OPEN, withToken(`number-${i}`)));
    else writeFileSync(join(postern.configDir, "postern.toml"), "not = TOML");
    const [ofGateway, ofProducer] = await Promise.all([reload(gateway), reload(producer)]);
    const event = i % 2 === 0 ? "config.reloaded" : "config.reload_failed";
    expect([ofGateway, ofProducer]).toMatchObject([{ event }, { event }]);
  }
  isOver = true;
  await Promise.all(senders);
  agent.destroy();
  expect([...others]).toEqual([]);
  const offered = () =>
    runner.offers.map(({ headers }) => String(headers["idempotency-key"])).filter((id) => accepted.has(id));
  const accepted = new Set(ids);
  await eventually("all calls are injected", () => offered().length >= ids.length);
  expect(offered().sort()).toEqual(ids.sort());
});

onlyInLongRun(() => {
  test("a reload while the server of an issuer's keys is down keeps the endpoint's keys", async () => {
    const { publicKey, privateKey: key } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const set = JSON.stringify({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1" }] });
    const issuer = createServer((_, res) => res.end(set)).listen(0, "127.0.0.1");
    await once(issuer, "listening");
    const jwks = `http://127.0.0.1:${(issuer.address() as AddressInfo).port}/`;
    const signed = { path: "/signed", auth: "jwt", issuer: "https://issuer.example", audience: "us", jwks };
    const { gateway, address } = await startGateway({ ...signed, job_id: 1 });
    const claims = { iss: signed.issuer, aud: signed.audience, exp: Math.floor(Date.now() / 1000) + 600 };
    const [head, body] = [{ alg: "ES256", kid: "1" }, claims].map((part) =>
      Buffer.from(JSON.stringify(part)).toString("base64url"),
    );
    const signature = sign("sha256", Buffer.from(`${head}.${body}`), { key, dsaEncoding: "ieee-p1363" });
    const headers = { Authorization: `Bearer ${head}.${body}.${signature.toString("base64url")}` };
    expect(await statusOf(address, "/signed", headers)).toBe(202);

    issuer.closeAllConnections();
    await new Promise((resolve) => issuer.close(resolve));
    writeConfig(postern.configDir, tablesOf({ ...signed, job_id: 2 }));
    expect(await reload(gateway)).toMatchObject({ event: "config.reloaded" });
    expect(await statusOf(address, "/signed", headers)).toBe(202);
  });

  test("a reload that corrects a runner's address ends its outage in the metrics", async () => {
    const withRunner = (url: string) => {
      const { postern, ...rest } = tablesOf(OPEN);
      return { postern: { ...postern, runner: { url } }, ...rest };
    };
    postern.configure(withRunner(`http://127.0.0.1:${await freePort()}`));
    const gateway = postern.start(["webhooks", ...FREE_PORTS]);
    const producer = postern.start(["producer", "--ops-address", "127.0.0.1:0"]);
    const { address } = await gateway.waitForEvent("service.started");
    const { opsAddress } = await producer.waitForEvent("service.started");
    const away = async () => {
      const { text } = await send(String(opsAddress), { method: "GET", path: "/metrics" });
      return /^postern_runner_away\{runner="default"\} (\d)$/m.exec(text)?.[1];
    };
    const statuses = Array.from({ length: 3 }, () => statusOf(String(address), OPEN.path));
    expect(await Promise.all(statuses)).toEqual([202, 202, 202]);
    await producer.waitForEvent("runner.down");
    expect(await away()).toBe("1");

    writeConfig(postern.configDir, withRunner(runner.url));
    await reload(producer);
    expect(await away()).toBe("0");
    const ofPath = () => runner.offers.filter(({ headers }) => headers["x-webhook-path"] === OPEN.path);
    await eventually("the calls have run", () => ofPath().length === 3);
  });

  describe("while Redis is unavailable", () => {
    const own = useOwnRedis();

    async function startAndReload() {
      const tables = (...endpoints: Endpoint[]) => ({
        ...tablesOf(...endpoints),
        postern: { drain_secs: 0, redis: { url: own.url } },
      });
      postern.configure(tables(OPEN));
      const gateway = postern.start(["webhooks", ...FREE_PORTS]);
      const { address } = await gateway.waitForEvent("service.started");
      await own.server.kill("SIGKILL");
      writeConfig(postern.configDir, tables({ ...OPEN, path: "/other" }));
      process.kill(gateway.pid, "SIGHUP");
      return { gateway, address: String(address) };
    }

    test("a gateway reloads as soon as Redis is available again", async () => {
      const { gateway, address } = await startAndReload();
      await own.server.restart();
      await gateway.waitForEvent("config.reloaded");
      expect(await statusOf(address, "/other")).toBe(202);
    });

    test("a gateway that waits for Redis to reload can be stopped cleanly", async () => {
      const { gateway } = await startAndReload();
      expect(await gateway.kill("SIGTERM")).toMatchObject({ code: 0 });
      await own.server.restart();
    });
  });
});
