import { declarePaymentIdentifierExtension } from "@x402/extensions/payment-identifier";
import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useEnds } from "../../../../fixtures/ends.ts";
import { JOB_PATH, PUBLIC_URL, requiredIn, useX402 } from "../../../../fixtures/x402.ts";
import { openRaw, send } from "../../../../support/http.ts";
import { answerJson, startFaultyFacilitator } from "../../facilitator/faulty-facilitator.ts";
import { DECLARED, declaring, ORDER, PRINTED, schemaOfBytes, UNFIT } from "../../job-inputs.ts";
import { ASSET_18, twoTokens } from "../../two-tokens.ts";

const fixture = useX402();
const ends = useEnds();

test("the 402 of an unpaid request says how to pay in both versions, with one offer for each token", async () => {
  const x402 = await fixture.gateway({ x402: twoTokens(fixture.devnet), early: true });
  const answer = await x402.post();
  expect(answer.status).toBe(402);
  const required = requiredIn(answer);
  expect(required).toMatchObject({
    x402Version: 2,
    resource: { url: `${PUBLIC_URL}${JOB_PATH}` },
    extensions: { "payment-identifier": declarePaymentIdentifierExtension(false) },
  });
  expect(required.accepts).toHaveLength(2);
  expect(required.accepts[0]).toEqual({
    scheme: "exact",
    network: fixture.devnet.network,
    asset: fixture.devnet.token,
    amount: "3200000",
    payTo: fixture.devnet.seller,
    maxTimeoutSeconds: 120,
    extra: {
      name: "USDC",
      version: "2",
      quoteDigest: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      quoteExpiry: expect.any(Number),
      quoteMac: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      paymentFlow: "upfront",
    },
  });
  expect(required.accepts[1]).toMatchObject({ asset: ASSET_18, amount: "3200000000000000000" });
  const body = answer.json<{ accepts: unknown[] }>();
  expect(body).toMatchObject({ x402Version: 1, code: "payment.required", status: 402 });
  expect(body.accepts).toEqual([
    {
      scheme: "exact",
      network: "base-sepolia",
      maxAmountRequired: "3200000",
      resource: `${PUBLIC_URL}${JOB_PATH}`,
      description: "Job 7 of service 1",
      mimeType: "application/json",
      payTo: fixture.devnet.seller,
      maxTimeoutSeconds: 120,
      asset: fixture.devnet.token,
      extra: { name: "USDC", version: "2" },
    },
  ]);
});

test("the price in a 402 is valid for at least the promised time", async () => {
  const x402 = await fixture.gateway({ x402: { quote_ttl_secs: 300 } });
  const before = Date.now() / 1000;
  const [offer] = (await x402.ask()).v2.accepts;
  const left = Number(offer?.extra["quoteExpiry"]) - before;
  expect(left).toBeGreaterThanOrEqual(300);
  expect(left).toBeLessThanOrEqual(311);
});

test("a 402 is kept by no cache, and a browser's page may read it", async () => {
  const { headers } = await (await fixture.gateway()).post();
  expect(headers["cache-control"]).toBe("no-store");
  expect(headers["content-type"]).toBe("application/problem+json");
  expect(headers["access-control-allow-origin"]).toBe("*");
  const exposed = String(headers["access-control-expose-headers"]).split(", ");
  expect(exposed).toEqual(
    expect.arrayContaining(["PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE", "Retry-After"]),
  );
});

test("an unpaid request gets its 402 whatever its body, even if the body does not match the job's schema", async () => {
  const x402 = await fixture.gateway(declaring);
  for (const body of ["", UNFIT, "{"]) expect((await x402.post({}, { body })).status).toBe(402);
});

test("a 402 describes the job, its input and its output in both versions, if the job declares them", async () => {
  const x402 = await fixture.gateway({ prices: { "7": { ...DECLARED, ...PRINTED } } });
  const { v1, v2 } = await x402.ask();
  expect(v2.resource).toEqual({
    ...{ url: `${PUBLIC_URL}${JOB_PATH}`, method: "POST", mimeType: "application/json" },
    ...{ description: "Takes an order", serviceName: "pay.test" },
  });
  const input = { type: "http", method: "POST", bodyType: "json" };
  expect(v2.extensions?.["bazaar"]).toMatchObject({
    info: {
      input: { ...input, body: DECLARED.input_example },
      output: { type: "json", example: PRINTED.output_example },
    },
    schema: {
      properties: {
        input: { properties: { body: ORDER } },
        output: { properties: { example: PRINTED.output_schema } },
      },
    },
  });
  expect(v1[0]).toMatchObject({
    description: "Takes an order",
    outputSchema: { input: { ...input, body: ORDER }, output: PRINTED.output_schema },
  });
});

test("a 402 has the seller's name from x402.toml, and omits a host that is too long for a name", async () => {
  const shop = { name: "Example jobs", tags: ["text"], icon_url: "https://jobs.example.com/icon.png" };
  const named = (await (await fixture.gateway({ x402: { shop } })).ask()).v2.resource;
  expect(named).toMatchObject({ serviceName: shop.name, tags: shop.tags, iconUrl: shop.icon_url });
  const public_url = `https://${"a".repeat(29)}.test`;
  const unnamed = (await (await fixture.gateway({ x402: { public_url } })).ask()).v2.resource;
  expect(unnamed).toMatchObject({ url: `${public_url}${JOB_PATH}` });
  expect(unnamed).not.toHaveProperty("serviceName");
});

test("a schema above 2560 bytes is left out of a 402 in both versions, and a job without a schema has none there", async () => {
  const large = { ...DECLARED, input_schema: schemaOfBytes(2559), input_example: {} };
  const x402 = await fixture.gateway({ prices: { "7": large, "8": "1000000000000000" } });
  for (const path of [JOB_PATH, "/x402/jobs/1/8"]) {
    const { v1, v2 } = await x402.ask(path);
    expect(Object.keys(v2.extensions ?? {})).toEqual(["payment-identifier"]);
    expect(Object.keys(v1[0] ?? {})).not.toContain("outputSchema");
  }
  expect((await x402.ask()).v2.resource?.description).toBe("Takes an order");
});

test("a query does not change the path of an unpaid request", async () => {
  const x402 = await fixture.gateway();
  expect((await x402.post({}, { path: `${JOB_PATH}?a=/../8` })).status).toBe(402);
});

test("a 402 has the public URL and never the Host header of the request", async () => {
  const x402 = await fixture.gateway();
  const headers = { Host: "evil.test", "X-Forwarded-Host": "evil.test" };
  const challenge = await send(x402.address, { path: JOB_PATH, headers, body: "" });
  expect(requiredIn(challenge).resource?.url).toBe(`${PUBLIC_URL}${JOB_PATH}`);
  expect(JSON.stringify(requiredIn(challenge)) + challenge.text).not.toContain("evil.test");
});

test("an unpaid request of ten megabytes gets its 402 before its body is read, and the connection ends", async () => {
  const x402 = await fixture.gateway();
  const bytes = 10 * 1024 * 1024;
  const head = `POST ${JOB_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes}\r\n\r\n`;
  const raw = openRaw(x402.address, head);
  await eventually("the answer is whole", () => raw.received().endsWith("}"));
  expect(raw.received()).toMatch(/^HTTP\/1\.1 402 /);
  expect(raw.received()).toMatch(/\r\nConnection: close\r\n/i);
  await raw.sendUntilReset("a".repeat(64 * 1024));
  expect(raw.socket.bytesWritten).toBeLessThan(bytes);
});

test("an unpaid client that waits for 100-continue gets the 402 instead", async () => {
  const x402 = await fixture.gateway();
  const head = `POST ${JOB_PATH} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`;
  const raw = openRaw(x402.address, head);
  await eventually("an answer", () => raw.received().endsWith("}"));
  expect(raw.received()).toMatch(/^HTTP\/1\.1 402 /);
  raw.socket.destroy();
});

test("a token that a facilitator supports only in version 2 is offered only in version 2", async () => {
  const { devnet } = fixture;
  const its = await startFaultyFacilitator();
  ends.defer(() => its.close());
  its.on("supported", answerJson({ kinds: [{ x402Version: 2, scheme: "exact", network: devnet.network }] }));
  const x402 = await fixture.gateway({ x402: { facilitator_url: its.url } });
  const { v1, v2 } = await x402.ask();
  expect(v2.accepts).toHaveLength(1);
  expect(v1).toEqual([]);
});

test("every token is offered until a facilitator has reported its kinds", async () => {
  const x402 = await fixture.gateway({ x402: { facilitator_url: "http://127.0.0.1:1" }, early: true });
  await eventually("rates and chains are there", async () => (await x402.post()).status === 402);
  const { v1, v2 } = await x402.ask();
  expect([v1.length, v2.accepts.length]).toEqual([1, 1]);
});
