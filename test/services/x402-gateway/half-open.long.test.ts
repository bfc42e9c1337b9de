import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { useBoughtCalls } from "../../fixtures/bought-call.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { JOB_PATH, PRICE, useX402 } from "../../fixtures/x402.ts";
import { newPayer } from "../../support/devnet.ts";
import { openRaw } from "../../support/http.ts";

/*
 * Clients that end their side of the connection (FIN) and continue to read.
 */

const fixture = useX402();
const calls = useBoughtCalls(fixture);
const ends = useEnds();

/** Starts a proxy at the level of TCP that forwards the end of each side separately. */
async function startRelay(address: string): Promise<string> {
  const [host, port] = address.split(":");
  const relay = createServer({ allowHalfOpen: true }, (client) => {
    const server = connect({ host, port: Number(port), allowHalfOpen: true });
    for (const socket of [client, server]) socket.on("error", () => {});
    client.pipe(server).pipe(client);
  });
  await once(relay.listen(0, "127.0.0.1"), "listening");
  ends.defer(() => relay.close());
  return `127.0.0.1:${(relay.address() as AddressInfo).port}`;
}

const requestText = (line: string, headers: Readonly<Record<string, string>>, body = "") => {
  const sized = { Host: "x", ...headers, "Content-Length": String(body.length) };
  const lines = Object.entries(sized).map(([name, value]) => `${name}: ${value}`);
  return [`${line} HTTP/1.1`, ...lines, "", body].join("\r\n");
};

/** The settlement takes longer than the ten seconds that a connection stays open after its client has ended its side. */
const SETTLE_MS = 12_000;

test("a client that ends its side while its payment settles is answered after about 8 s that the outcome is unknown, and the payment is one charge and one job", async () => {
  const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 30 } });
  const payers = [fixture.payer, await newPayer(fixture.devnet)];
  const headers = await Promise.all(payers.map((payer) => x402.pay({ payer })));
  await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: SETTLE_MS, times: 2 });
  const addresses = [x402.address, await startRelay(x402.address)];
  const clients = headers.map((header, i) =>
    openRaw(addresses[i] ?? "", requestText(`POST ${JOB_PATH}`, header, "hello")),
  );
  await eventually("both settle", async () => (await fixture.asked()).settle === 2);
  const endedAt = performance.now();
  await Promise.all(
    clients.map(async ({ socket, received }) => {
      socket.end();
      await once(socket, "close");
      expect(performance.now() - endedAt).toBeGreaterThan(7000);
      expect(received()).toMatch(/^HTTP\/1\.1 503 [\s\S]*"code":"payment\.outcome_unknown"/);
    }),
  );
  await eventually("their calls wait", async () => (await x402.waiting()).length === 2);
  for (const header of headers) expect((await x402.post(header)).status).toBe(202);
  expect((await x402.waiting()).length).toBe(2);
  for (const payer of payers) expect(await fixture.charged(payer)).toEqual([PRICE]);
});

test("a client that ends its side right after its request gets its 202 if the payment settles in time", async () => {
  const x402 = await fixture.gateway();
  const { socket, received } = openRaw(
    await startRelay(x402.address),
    requestText(`POST ${JOB_PATH}`, await x402.pay({ payer: fixture.payer }), "hello"),
  );
  socket.end();
  await once(socket, "close");
  expect(received()).toMatch(/^HTTP\/1\.1 202 /);
  expect(await fixture.charged()).toEqual([PRICE]);
});

test("a stream of events ends completely and releases its slot once its client has ended its side", async () => {
  const x402 = await fixture.gateway();
  const { id, token } = await calls.buy(x402);
  const request = requestText(`GET /x402/calls/${id}/events`, { Authorization: `Bearer ${token}` });
  for (const address of [x402.address, await startRelay(x402.address)]) {
    const { socket, received } = openRaw(address, request);
    await eventually("its state has come", () => received().includes("event: state"));
    expect(x402.gateway.streaming()).toBe(1);
    socket.end();
    await once(socket, "close");
    expect(received()).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\n0\r\n\r\n$/);
    expect(x402.gateway.streaming()).toBe(0);
  }
});
