import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type ConfigTables, writeConfig } from "../../shared/config/config-tables.ts";
import type { PosternProcess } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { usePostern } from "../fixtures/postern.ts";
import { asUser, useRedis } from "../fixtures/redis.ts";
import { send } from "../support/http.ts";

const redis = useRedis();
const postern = usePostern();

type Endpoint = { path: string; job_id: number; auth: string; secret?: string[] };
const OPEN: Endpoint = { path: "/open", job_id: 1, auth: "none" };
const withToken = (...secret: string[]): Endpoint => ({
  ...{ path: "/token", job_id: 2, auth: "bearer" },
  secret: secret.map((each) => `${each}-of-thirty-two-or-more-characters`),
});

const tablesOf = (...endpoints: Endpoint[]): ConfigTables => ({
  postern: { drain_secs: 0, redis: { url: asUser(redis.url, "webhooks") } },
  webhooks: { endpoints },
});

/** Starts a gateway with these endpoints. Resolves with it and its address. */
async function startGateway(...endpoints: Endpoint[]) {
  postern.configure(tablesOf(...endpoints));
  const gateway = postern.start(["webhooks", "--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"]);
  const { address, opsAddress } = await gateway.waitForEvent("service.started");
  return { gateway, address: String(address), opsAddress: String(opsAddress) };
}

/** Sends a SIGHUP, and resolves with the event that says what became of it. */
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

test("a SIGHUP brings endpoints and secrets into force, and a wrong configuration leaves what was there", async () => {
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
