import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { startProcess } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser, useRedis } from "../../fixtures/redis.ts";
import { FROM_SOURCE } from "../../support/from-source.ts";
import { send } from "../../support/http.ts";
import { SECRET, sign } from "./receive/credentials.ts";

const MIB = 1024 * 1024;
const BUDGET_MIB = 64;
/**
 * Memory that the process may use under load besides its budget: garbage, sockets, and bodies that are being checked.
 */
const ALLOWANCE_MIB = 128;
const CONNECTIONS = 150;
const HOSTILE = 200;
const HONEST = 60;

const ends = useEnds();
const redis = useRedis();
const postern = usePostern(() => ({
  postern: {
    redis: { url: asUser(redis.url, "webhooks") },
    http: { connections: CONNECTIONS, body_budget_bytes: BUDGET_MIB * MIB },
  },
  webhooks: {
    body_limit_bytes: 26 * MIB,
    endpoints: [{ path: "/hmac", job_id: 1, auth: "hmac-sha256", secret: SECRET }],
  },
}));

/** Starts the gateway in its own process, and reads its metrics. */
async function startGateway() {
  const args = ["webhooks", "--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
  const gateway = postern.start(args);
  const started = await gateway.waitForEvent("service.started");
  const opsAddress = String(started["opsAddress"]);
  const get = (path: string) => send(opsAddress, { method: "GET", path });
  await eventually("it is ready", async () => (await get("/readyz")).status === 200);
  const metric = async (name: string) => {
    const line = new RegExp(`^${name} (\\S+)$`, "m").exec((await get("/metrics")).text);
    return Number(line?.[1]);
  };
  return { pid: gateway.pid, address: String(started["address"]), metric };
}

function startHostileLoad(address: string) {
  const script = new URL("../../support/hostile-load.ts", import.meta.url).pathname;
  const load = startProcess({
    name: "hostile load",
    entry: [...FROM_SOURCE, script],
    args: [address, "/hmac", String(HOSTILE)],
    env: process.env,
  });
  ends.defer(() => load.kill("SIGKILL"));
}

/** Reads the memory of a process: `VmRSS` is its current size, `VmHWM` its largest size so far. */
function mibOf(pid: number, field: "VmRSS" | "VmHWM"): number {
  const kib = new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(kib?.[1]) / 1024;
}

async function isDelivered(address: string, i: number): Promise<boolean> {
  const body = `{"delivery": ${i}, "text": "${"x".repeat(2000)}"}`;
  const headers = { "X-Signature-256": sign(body) };
  const answer = await send(address, { path: "/hmac", headers, body }).catch(() => undefined);
  return answer?.status === 202;
}

test("with 200 hostile connections that stall, trickle or flood, the gateway stays within its budget and accepts honest deliveries", async () => {
  const gateway = await startGateway();
  for (let i = 0; i < 50; i++) expect(await isDelivered(gateway.address, i)).toBe(true);
  const idleMib = mibOf(gateway.pid, "VmRSS");

  startHostileLoad(gateway.address);
  await eventually("bodies are cut", async () => (await gateway.metric("postern_http_bodies_cut_total")) > 0);
  await eventually("connections are closed", async () => {
    return (await gateway.metric("postern_http_connections_closed_total")) > 0;
  });
  let delivered = 0;
  await Promise.all(
    Array.from({ length: 12 }, async () => {
      for (let i = 0; i < HONEST / 12; i++) if (await isDelivered(gateway.address, i)) delivered += 1;
    }),
  );
  expect(delivered).toBeGreaterThanOrEqual(0.95 * HONEST);
  expect(await gateway.metric("postern_http_connections")).toBeLessThanOrEqual(CONNECTIONS);
  expect(await gateway.metric("postern_http_body_bytes")).toBeLessThanOrEqual(BUDGET_MIB * MIB);
  const grownMib = mibOf(gateway.pid, "VmHWM") - idleMib;
  expect(grownMib).toBeLessThan(BUDGET_MIB + ALLOWANCE_MIB);
});
