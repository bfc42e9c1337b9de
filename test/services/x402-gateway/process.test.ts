import { Agent } from "node:http";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { DevAccount } from "../../../services/devnet/chain.ts";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { Secret } from "../../../shared/crypto/secret.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { type Part, startPart } from "../../../shared/dev/process.ts";
import { type PrivateRedis, startRedis } from "../../../shared/dev/redis.ts";
import { untilReady, untilSelling } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { silentLogger } from "../../../shared/log/logger.ts";
import { isQueued } from "../../../shared/queue/status.ts";
import { connectForWork, type Redis } from "../../../shared/redis/connect.ts";
import { JOB_PATH, signOffer, x402Table } from "../../fixtures/x402.ts";
import { newPayer, startTestDevnet, type TestDevnet } from "../../support/devnet.ts";
import { canConnect, openRaw, send } from "../../support/http.ts";
import { tempDir } from "../../support/temp-dir.ts";

let devnet: TestDevnet;
let server: PrivateRedis;
let redis: Redis;
let gateway: Part;
let payer: DevAccount;

beforeAll(async () => {
  [devnet, server] = await Promise.all([startTestDevnet(), startRedis({ env: process.env })]);
  redis = connectForWork(new Secret(server.url), silentLogger);
});
beforeEach(async () => {
  payer = await newPayer(devnet);
  await devnet.control.clearRequests();
});
afterEach(async () => {
  await devnet.control.clearFaults();
  await gateway?.kill("SIGKILL");
});
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
  await devnet?.stop();
});

async function start({ drainSecs = 0 } = {}): Promise<void> {
  const dir = join(tempDir(), "config");
  writeConfig(dir, {
    postern: { drain_secs: drainSecs, redis: { url: server.url } },
    x402: x402Table({ devnet }),
    job_pricing: { "1": { "7": "1000000000000000" } },
  });
  const bind = ["--bind-address", `127.0.0.1:${await freePort()}`, "--ops-address", "127.0.0.1:0"];
  const args = ["x402", "--config-dir", dir, ...bind];
  gateway = await startPart({ name: "x402", args, env: process.env });
  await untilReady(gateway);
  await untilSelling(gateway);
}

async function pay(): Promise<Record<string, string>> {
  return signOffer(await post({}), { payer });
}

function post(headers: Record<string, string>) {
  return send(gateway.address, { path: JOB_PATH, headers, body: "hello" });
}

async function charges(): Promise<number> {
  const transfers = await devnet.chain.transfers(devnet.seller);
  return transfers.filter(({ from }) => from === payer.address.toLowerCase()).length;
}

function settleIsAsked(): Promise<unknown> {
  return eventually("it is being settled", async () => (await devnet.control.requests()).settle === 1);
}

const portOf = (address: string) => Number(address.split(":")[1]);

describe("postern x402 told to stop", () => {
  test("exits with 0 at once where nothing is under way", async () => {
    await start();
    expect(await gateway.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    expect(gateway.process.events("service.stopped")).toMatchObject([{ exitCode: 0 }]);
    expect(await canConnect(portOf(gateway.address))).toBe(false);
  });

  test("finishes the payment that is being settled: its 202 is delivered, its call queued, and it exits with 0", async () => {
    await start();
    const headers = await pay();
    await devnet.control.fault({ on: "settle", kind: "slow", delayMs: 1500, times: 1 });
    const answered = post(headers);
    await settleIsAsked();
    const ended = gateway.kill("SIGTERM");
    await eventually("it takes no connections", async () => !(await canConnect(portOf(gateway.address))));
    expect(await charges(), "the money has not moved yet").toBe(0);

    const answer = await answered;
    expect([answer.status, answer.json()["status"]]).toEqual([202, "accepted"]);
    expect(answer.headers["payment-response"]).toBeDefined();
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(await isQueued(redis, "x402", String(answer.json()["call_id"]))).toBe(true);
    expect(await charges()).toBe(1);
  });

  test("still sells for drain_secs, on connections that end with the answer", async () => {
    await start({ drainSecs: 3 });
    const headers = await pay();
    const agent = new Agent({ keepAlive: true });
    const ended = gateway.kill("SIGTERM");
    await eventually("it is not ready", async () => {
      const ready = await send(gateway.opsAddress ?? "", { method: "GET", path: "/readyz" });
      return ready.status === 503;
    });
    const answer = await send(gateway.address, { path: JOB_PATH, headers, body: "hello", agent });
    expect([answer.status, answer.headers.connection]).toEqual([202, "close"]);
    agent.destroy();
    expect(await ended).toEqual({ code: 0, signal: null });
  });

  test("then refuses a payment that still arrives on an open connection, before anybody is asked, and not one it knows", async () => {
    await start();
    const [known, fresh] = [await pay(), await pay()];
    const callId = (await post(known)).json()["call_id"];
    await devnet.control.clearRequests();
    const begin = (headers: Record<string, string>) =>
      openRaw(
        gateway.address,
        `GET /livez HTTP/1.1\r\nHost: x\r\n\r\nPOST ${JOB_PATH} HTTP/1.1\r\nHost: x\r\nPAYMENT-SIGNATURE: ${headers["PAYMENT-SIGNATURE"]}\r\n`,
      );
    const [knownCall, freshCall] = [begin(known), begin(fresh)];
    for (const { received } of [knownCall, freshCall])
      await eventually("the first request is answered", () => received().endsWith("ok"));
    const ended = gateway.kill("SIGTERM");
    await eventually("it takes no connections", async () => !(await canConnect(portOf(gateway.address))));
    for (const { socket } of [knownCall, freshCall]) socket.write("Content-Length: 5\r\n\r\nhello");
    for (const { received } of [knownCall, freshCall])
      await eventually("it is answered", () => received().endsWith("}"));

    expect(freshCall.received()).toMatch(/^HTTP\/1\.1 200[\s\S]*HTTP\/1\.1 503/);
    expect(freshCall.received()).toContain('"code":"service.draining"');
    expect(freshCall.received()).toMatch(/Retry-After: [1-9]/);
    expect(knownCall.received()).toMatch(/^HTTP\/1\.1 200[\s\S]*HTTP\/1\.1 202/);
    expect(knownCall.received()).toContain(String(callId));
    for (const { socket } of [knownCall, freshCall]) socket.destroy();
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(await devnet.control.requests()).toMatchObject({ verify: 0, settle: 0 });
    expect(await charges()).toBe(1);
  });
});

/** The lines of a metric on the ops address, as values by label. */
async function metric(name: string, label: string): Promise<Record<string, number>> {
  const { text } = await send(gateway.opsAddress ?? "", { method: "GET", path: "/metrics" });
  const lines = text.matchAll(new RegExp(`^${name}\\{${label}="([^"]+)"\\} (\\S+)$`, "gm"));
  return Object.fromEntries([...lines].map(([, value, count]) => [value, Number(count)]));
}

test("its metrics count what happened: each answer by its code, each settle by its outcome, each payment reconciled", async () => {
  await start();
  const answers = () => metric("postern_payments_total", "code");
  const settles = () => metric("postern_settle_total", "outcome");
  const reconciled = () => metric("postern_payments_reconciled_total", "result");
  expect([await answers(), await settles(), await reconciled()]).toEqual([{}, {}, {}]);

  const paid = await pay();
  for (const _ of [1, 2]) expect((await post(paid)).status).toBe(202);
  expect((await post({ "PAYMENT-SIGNATURE": "no payment" })).status).toBe(402);
  expect(await answers()).toEqual({ accepted: 2, "payment.malformed": 1 });
  expect([await settles(), await reconciled()]).toEqual([{ settled: 1 }, {}]);

  await devnet.control.fault({ on: "settle", kind: "drop", acts: true, times: 1 });
  expect((await post(await pay())).status).toBe(503);
  await eventually("it is found on the chain", async () => (await reconciled())["settled"] === 1);
  expect(await settles()).toEqual({ settled: 1, unknown: 1 });

  const cancelled = await pay();
  await devnet.control.fault({ on: "settle", kind: "drop" });
  expect((await post(cancelled)).status).toBe(503);
  const { payload } = JSON.parse(Buffer.from(cancelled["PAYMENT-SIGNATURE"] ?? "", "base64").toString());
  await devnet.chain.cancelAuthorization(payer, payload.authorization.nonce);
  await eventually("it is void", async () => (await reconciled())["void"] === 1);
  expect((await post(cancelled)).status).toBe(402);
  expect(await reconciled()).toEqual({ settled: 1, void: 1 });
  expect(await answers()).toEqual({
    accepted: 2,
    "payment.malformed": 1,
    "payment.outcome_unknown": 2,
    "payment.void": 1,
  });
});
