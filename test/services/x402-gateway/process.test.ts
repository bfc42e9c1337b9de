import { Agent } from "node:http";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import type { DevAccount } from "../../../services/dev/chain/chain.ts";
import { writeConfig } from "../../../shared/config/config-tables.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { type Part, startPart } from "../../../shared/dev/process.ts";
import { untilReady, untilSelling } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { openRegistry } from "../../../shared/queue/registry.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { asUser, useRedis } from "../../fixtures/redis.ts";
import { JOB_PATH, signOffer, x402Table } from "../../fixtures/x402.ts";
import { newPayer } from "../../support/devnet.ts";
import { canConnect, openRaw, send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { authorizationIn } from "../../support/sign-payment.ts";
import { tempDir } from "../../support/temp-dir.ts";

const redis = useRedis();
const devnet = useDevnet();
const ends = useEnds();
let gateway: Part;
let payer: DevAccount;

beforeEach(async () => {
  payer = await newPayer(devnet);
  await devnet.control.clearRequests();
  ends.defer(() => devnet.control.clearFaults());
});

const PRICES: Record<string, string> = { "7": "1000000000000000" };

async function start({ drainSecs = 0, x402 = {}, prices = PRICES, env = {} } = {}): Promise<void> {
  const dir = join(tempDir(), "config");
  writeConfig(dir, {
    postern: { drain_secs: drainSecs, redis: { url: asUser(redis.url, "x402") } },
    x402: x402Table({ devnet, x402 }),
    job_pricing: { "1": prices },
  });
  const bind = ["--bind-address", `127.0.0.1:${await freePort()}`, "--ops-address", "127.0.0.1:0"];
  const args = ["x402", "--config-dir", dir, ...bind];
  gateway = await startPart({ name: "x402", args, env: { ...process.env, ...env } });
  const { kill } = gateway;
  ends.defer(() => kill("SIGKILL"));
  await untilReady(gateway);
  await untilSelling(gateway);
}

onlyInLongRun(() => {
  test("without the native module of secp256k1 the x402 process logs this once at its start, and accepts payments", async () => {
    await start({ env: { npm_config_arch: "none" } });
    expect(gateway.process.events("signatures.slow")).toMatchObject([
      { remedy: expect.stringContaining("npm rebuild secp256k1") },
    ]);
    expect((await post(await pay())).status).toBe(202);
  });
});

async function pay(): Promise<Record<string, string>> {
  return signOffer(await post({}), { payer });
}

function post(headers: Record<string, string>) {
  return send(gateway.address, { path: JOB_PATH, headers, body: "hello" });
}

async function charges(): Promise<number> {
  return (await devnet.chain.chargesOf(payer.address)).length;
}

function settleIsAsked(): Promise<unknown> {
  return eventually("it is being settled", async () => (await devnet.control.requests()).settle === 1);
}

const portOf = (address: string) => Number(address.split(":")[1]);

onlyInLongRun(() => {
  test("the x402 process, asked to stop while nothing is in flight, exits with 0 at once", async () => {
    await start();
    expect(await gateway.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    expect(gateway.process.events("service.stopped")).toMatchObject([{ exitCode: 0 }]);
    expect(await canConnect(portOf(gateway.address))).toBe(false);
  });
});

test("the x402 process, asked to stop, finishes the payment that is being settled, answers it 202 and exits with 0", async () => {
  await start();
  const headers = await pay();
  await devnet.control.fault({ on: "settle", kind: "slow", delayMs: 1000, times: 1 });
  const answered = post(headers);
  await settleIsAsked();
  const ended = gateway.kill("SIGTERM");
  await eventually("it takes no connections", async () => !(await canConnect(portOf(gateway.address))));
  expect(await charges(), "the money has not moved yet").toBe(0);

  const answer = await answered;
  expect([answer.status, answer.json()["status"]]).toEqual([202, "accepted"]);
  expect(answer.headers["payment-response"]).toBeDefined();
  expect(await ended).toEqual({ code: 0, signal: null });
  expect(await openRegistry(partitionOf(redis.client)).find(String(answer.json()["call_id"]))).toBeDefined();
  expect(await charges()).toBe(1);
});

onlyInLongRun(() => {
  test("the x402 process, asked to stop, still answers a first request that waits for its outcome, and exits with 0", async () => {
    await start({ x402: { settle_timeout_secs: 20 } });
    const headers = await pay();
    await devnet.control.fault({ on: "settle", kind: "pending", landsAfterMs: 1500, times: 1 });
    const answered = post(headers);
    await eventually("it waits", () => gateway.process.events("payment.settle_answered").length === 1);
    const ended = gateway.kill("SIGTERM");
    await eventually("it takes no connections", async () => !(await canConnect(portOf(gateway.address))));
    expect((await answered).status).toBe(202);
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(await charges()).toBe(1);
  });

  test("the x402 process, asked to stop, still sells for drain_secs", async () => {
    await start({ drainSecs: 2 });
    const headers = await pay();
    const agent = new Agent({ keepAlive: true });
    const ended = gateway.kill("SIGTERM");
    await eventually("it is not ready", async () => {
      const ready = await send(gateway.opsAddress ?? "", { method: "GET", path: "/readyz" });
      return ready.status === 503;
    });
    const answer = await send(gateway.address, { path: JOB_PATH, headers, body: "hello", agent });
    expect(answer.status).toBe(202);
    agent.destroy();
    expect(await ended).toEqual({ code: 0, signal: null });
  });

  test("the x402 process, asked to stop, still sells on an open connection, and ends the connection with the answer", async () => {
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

    for (const { received } of [knownCall, freshCall])
      expect(received()).toMatch(/^HTTP\/1\.1 200[\s\S]*HTTP\/1\.1 202[\s\S]*^Connection: close\r$/m);
    expect(knownCall.received()).toContain(String(callId));
    for (const { socket } of [knownCall, freshCall]) socket.destroy();
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(await charges()).toBe(2);
  });
});

/** Reads a metric at the ops address. Returns its values by label. */
async function metric(name: string, label: string): Promise<Record<string, number>> {
  const { text } = await send(gateway.opsAddress ?? "", { method: "GET", path: "/metrics" });
  const lines = text.matchAll(new RegExp(`^${name}\\{${label}="([^"]+)"\\} (\\S+)$`, "gm"));
  return Object.fromEntries([...lines].map(([, value, count]) => [value, Number(count)]));
}

onlyInLongRun(() => {
  test("the x402 process counts answers by code, settlements by outcome, and the payments that it reconciled", async () => {
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
    expect((await post(await pay())).status).toBe(202);
    await eventually("it is found on the chain", async () => (await reconciled())["settled"] === 1);
    expect(await settles()).toEqual({ settled: 1, unknown: 1 });

    const cancelled = await pay();
    await devnet.control.fault({ on: "settle", kind: "drop" });
    expect((await post(cancelled)).status).toBe(503);
    await devnet.chain.cancelAuthorization(payer, authorizationIn(cancelled).authorization.nonce);
    await devnet.chain.finalize();
    await eventually("it is void", async () => (await reconciled())["void"] === 1);
    expect((await post(cancelled)).status).toBe(402);
    expect(await reconciled()).toEqual({ settled: 1, void: 1 });
    expect(await answers()).toEqual({
      accepted: 3,
      "payment.malformed": 1,
      "payment.outcome_unknown": 1,
      "payment.void": 1,
    });
  });

  test("a gateway logs at its start how many jobs are for sale, and the default policy of jobs without their own", async () => {
    const wei = "1000000000000000";
    const job_policies = [
      { service_id: 1, job_index: 7, invocation_mode: "public_paid" },
      { service_id: 1, job_index: 8, invocation_mode: "disabled" },
    ];
    await start({
      x402: { default_invocation_mode: "disabled", job_policies },
      prices: { "7": wei, "8": wei, "9": wei },
    });
    expect(gateway.process.events("service.started")).toEqual([
      expect.objectContaining({ jobs: 3, jobsOnSale: 1, defaultInvocationMode: "disabled" }),
    ]);
  });
});
