import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { useEnds } from "../../fixtures/ends.ts";
import { JOB_PATH, useX402 } from "../../fixtures/x402.ts";
import { newPayer } from "../../support/devnet.ts";
import { send } from "../../support/http.ts";

const fixture = useX402();
const ends = useEnds();

test("the gateway's health is answered as text", async () => {
  const x402 = await fixture.gateway();
  const health = await send(x402.address, { method: "GET", path: "/x402/health" });
  expect([health.status, health.text]).toEqual([200, "ok"]);
});

test("a web page may read that a path is 404", async () => {
  const x402 = await fixture.gateway();
  for (const path of ["/x402/jobs/1/%37", "/x402/calls/nothing", "/x402/jobs/1/99"]) {
    const { status, headers } = await x402.post({}, { path });
    expect([status, headers["access-control-allow-origin"]]).toEqual([404, "*"]);
  }
});

test("a web page may read the refusals that are sent before the gateway handles a request: 431, 417, and malformed HTTP", async () => {
  const x402 = await fixture.gateway();
  const refusals = [
    await x402.post({ "PAYMENT-SIGNATURE": "a".repeat(20_000) }),
    await x402.post({ Expect: "200-ok" }),
    await x402.post({ "Transfer-Encoding": "gzip, chunked" }),
  ];
  expect(refusals.map(({ status }) => status)).toEqual([431, 417, 501]);
  for (const { headers } of refusals) {
    expect(headers["access-control-allow-origin"]).toBe("*");
    expect(headers["access-control-expose-headers"]).toContain("PAYMENT-RESPONSE");
  }
});

test.each([
  ["the default prefix", undefined, ["x-platform-quote", "x-platform-caller-sig"]],
  // The header that a pricing engine's documents name is accepted with any prefix.
  ["another prefix", "X-ACME", ["x-acme-quote", "x-platform-quote", "x-acme-caller", "x-acme-caller-nonce"]],
])(
  "a browser's preflight under %s is answered with the headers that a payment needs, and needs no payment itself",
  async (_, prefix, branded) => {
    const x402 = await fixture.gateway(prefix === undefined ? {} : { metadataPrefix: prefix });
    const wanted = [
      ...["payment-signature", "x-payment", "content-type", "access-control-expose-headers"],
      ...["idempotency-key", "authorization", "x-request-id", "prefer"],
      ...["sign-in-with-x", ...branded],
    ];
    const answer = await send(x402.address, {
      method: "OPTIONS",
      path: JOB_PATH,
      headers: {
        Origin: "https://shop.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": wanted.join(","),
      },
    });
    expect(answer.status).toBe(204);
    expect(answer.headers["access-control-allow-origin"]).toBe("*");
    expect(answer.headers["access-control-allow-methods"]).toContain("POST");
    const allowed = String(answer.headers["access-control-allow-headers"]).toLowerCase().split(", ");
    expect(allowed).toEqual(expect.arrayContaining(wanted));
  },
);

/** Starts a host's own server around the gateway's handler. Returns its address. */
async function hosted(handler: RequestListener): Promise<string> {
  const server = createServer(handler).listen(0, "127.0.0.1");
  ends.defer(() => server.close());
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("a payment whose target is a URL buys the job at its path", async () => {
  const x402 = await fixture.gateway();
  const path = `http://shop.example${JOB_PATH}`;
  const paid = await x402.pay({ payer: await newPayer(fixture.devnet) });
  expect((await x402.post(paid, { path, body: "x" })).status).toBe(202);
  expect(await x402.waiting()).toHaveLength(1);
});

test("a host's own server may pass on a URL as target", async () => {
  const { gateway } = await fixture.gateway();
  const address = await hosted(gateway.handler);
  expect((await send(address, { path: `http://shop.example${JOB_PATH}?a=1` })).status).toBe(402);
  expect((await send(address, { method: "GET", path: "http://shop.example/livez" })).status).toBe(200);
});

test("a payment whose body has an unknown transfer coding costs nothing, also in a host's own server", async () => {
  const x402 = await fixture.gateway();
  const paid = await x402.pay({ payer: await newPayer(fixture.devnet) });
  const headers = { ...paid, "Transfer-Encoding": "gzip, chunked" };
  for (const address of [x402.address, await hosted(x402.gateway.handler)]) {
    const answer = await send(address, { path: JOB_PATH, headers, body: ["abc"] });
    expect([answer.status, answer.json()["code"]]).toEqual([501, "request.transfer_coding_unsupported"]);
  }
  expect(await x402.waiting()).toEqual([]);
});
