import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent } from "node:http";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { builtEntry } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser, useRedis } from "../../fixtures/redis.ts";
import { send } from "../../support/http.ts";

const CLIENTS = 16;
const DELIVERIES = 5000;
/** A long path makes each log line long. */
const path = `/${"long".repeat(750)}`;

const { defer } = useEnds();
const redis = useRedis();
const postern = usePostern(() => ({
  postern: { redis: { url: asUser(redis.url, "webhooks") }, drain_secs: 0 },
  webhooks: { endpoints: [{ path, job_id: 1, auth: "none" }] },
}));

async function startGateway() {
  const ports = ["--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const args = [...builtEntry("services/cli/main.js"), "webhooks", ...ports];
  const env = { ...process.env, POSTERN_CONFIG_DIR: postern.configDir };
  const gateway = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  defer(() => gateway.kill("SIGKILL"));
  const lines = createInterface(gateway.stdout);
  for await (const line of lines) {
    const { event, address, opsAddress } = JSON.parse(line);
    if (event === "service.started") return { gateway, address, opsAddress };
  }
  throw new Error("the gateway has not started");
}

const get = (address: string, path: string) => send(address, { method: "GET", path });

test("a gateway whose log is not read still accepts webhooks, counts the lines that it drops, and exits on SIGTERM", async () => {
  const { gateway, address, opsAddress } = await startGateway();
  gateway.stdout.pause();
  await eventually("it is ready", async () => (await get(opsAddress, "/readyz")).status === 200);
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
  defer(() => agent.destroy());
  const deliver = async (): Promise<void> => {
    for (let i = 0; i < DELIVERIES / CLIENTS; i++)
      expect((await send(address, { path, body: "x", agent })).status).toBe(202);
  };
  await Promise.all(Array.from({ length: CLIENTS }, deliver));
  const { text } = await get(opsAddress, "/metrics");
  expect(Number(/^postern_log_lines_dropped_total (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(1000);
  gateway.kill("SIGTERM");
  expect(await once(gateway, "exit")).toEqual([0, null]);
});
