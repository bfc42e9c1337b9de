import { mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type ConfigTables, writeConfig } from "../../../shared/config/config-tables.ts";
import { jsonLines, usePostern } from "../../fixtures/postern.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { send } from "../../support/http.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { runHereWith } from "./run-here.ts";

const redis = useRedis();
const postern = usePostern();
const run = runHereWith(postern);

const tablesOf = (path: string): ConfigTables => ({
  postern: { drain_secs: 0, redis: { url: redis.url }, runner: { timeout_ms: 300 } },
  webhooks: { endpoints: [{ path, job_id: 1, auth: "none" }] },
});

const OPS = ["--ops-address", "127.0.0.1:0"];

function startGateway(...more: string[]) {
  return postern.start(["webhooks", "--bind-address", "127.0.0.1:0", ...OPS, ...more]);
}

test("postern reload says of each process whether it uses the new configuration, and if not, why", async () => {
  postern.configure(tablesOf("/first"));
  const processes = [startGateway(), postern.start(["producer", ...OPS])];
  const [started] = await Promise.all(processes.map((each) => each.waitForEvent("service.started")));
  const status = async (path: string) =>
    (await send(String(started?.["address"]), { path, body: "{}" })).status;

  writeConfig(postern.configDir, tablesOf("/second"));
  const done = await run(["reload", "--reason", "another path", "-o", "json"]);
  expect(done.code, done.stderr).toBe(0);
  expect(jsonLines(done)).toMatchObject([
    { kind: "webhooks", state: "loaded", problem: null },
    { kind: "producer", state: "loaded", problem: null },
  ]);
  expect([await status("/first"), await status("/second")]).toEqual([404, 202]);

  writeFileSync(join(postern.configDir, "webhooks.toml"), "endpoints = 3");
  const refused = await run(["reload"]);
  expect(refused.code).toBe(1);
  expect(refused.stdout).toMatch(
    /webhooks .*: the previous configuration is still in force .*webhooks\.toml:1/,
  );
  expect(refused.stdout).toMatch(/producer .*: the configuration is in force/);
  expect(await status("/second")).toBe(202);
  expect((await run(["status"])).stdout).toMatch(/newest configuration is not in force: .*webhooks\.toml:1/);
});

test("with --watch a gateway follows its files, also if Kubernetes swaps the link to them", async () => {
  const mount = tempDir();
  const write = (name: string, path: string) => {
    mkdirSync(join(mount, name));
    writeConfig(join(mount, name), tablesOf(path));
    symlinkSync(name, join(mount, "..new"));
    renameSync(join(mount, "..new"), join(mount, "..data"));
  };
  write("..1", "/first");
  for (const file of ["postern.toml", "webhooks.toml"]) symlinkSync(join("..data", file), join(mount, file));
  const gateway = startGateway("--watch", "--config-dir", mount);
  const address = String((await gateway.waitForEvent("service.started"))["address"]);
  write("..2", "/second");
  expect(await gateway.waitForEvent("config.reloaded")).toMatchObject({ cause: "--watch" });
  expect((await send(address, { path: "/second", body: "{}" })).status).toBe(202);
});
