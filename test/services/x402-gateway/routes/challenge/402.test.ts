import { declarePaymentIdentifierExtension } from "@x402/extensions/payment-identifier";
import { describe, expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { JOB_PATH, PUBLIC_URL, requiredIn, useX402 } from "../../../../fixtures/x402.ts";
import { openRaw, send } from "../../../../support/http.ts";

const fixture = useX402();
const ASSET_18 = "0x1111111111111111111111111111111111111111";

/** A second token, of 18 decimals and on a chain that version 1 has no name for. */
function twoTokens() {
  const { network, token, seller, rpcUrl } = fixture.devnet;
  const shared = { pay_to: seller, rate_per_native_unit: "3200", eip3009_version: "2", rpc_url: rpcUrl };
  return {
    accepted_tokens: [
      { ...shared, network, asset: token, symbol: "USDC", decimals: 6, eip3009_name: "USDC" },
      {
        ...shared,
        network: "eip155:31337",
        asset: ASSET_18,
        symbol: "DAY",
        decimals: 18,
        eip3009_name: "Day",
      },
    ],
  };
}

describe("an unpaid request is told how to pay", () => {
  test("in both versions at once, one offer for each token", async () => {
    const x402 = await fixture.gateway({ x402: twoTokens(), early: true });
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

  test("the price holds for at least as long as promised", async () => {
    const x402 = await fixture.gateway({ x402: { quote_ttl_secs: 300 } });
    const before = Date.now() / 1000;
    const [offer] = (await x402.ask()).v2.accepts;
    const left = Number(offer?.extra["quoteExpiry"]) - before;
    expect(left).toBeGreaterThanOrEqual(300);
    expect(left).toBeLessThanOrEqual(311);
  });

  test("no cache keeps it, and a browser's page may read it", async () => {
    const { headers } = await (await fixture.gateway()).post();
    expect(headers["cache-control"]).toBe("no-store");
    expect(headers["content-type"]).toBe("application/problem+json");
    expect(headers["access-control-allow-origin"]).toBe("*");
    const exposed = String(headers["access-control-expose-headers"]).split(", ");
    expect(exposed).toEqual(
      expect.arrayContaining(["PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE", "Retry-After"]),
    );
  });

  test("a browser's page may read that there is nothing, too", async () => {
    const x402 = await fixture.gateway();
    for (const path of ["/x402/jobs/1/%37", "/x402/calls/nothing", "/x402/jobs/1/99"]) {
      const { status, headers } = await x402.post({}, { path });
      expect([status, headers["access-control-allow-origin"]]).toEqual([404, "*"]);
    }
  });

  test("a browser's preflight is answered without a word about payment", async () => {
    const x402 = await fixture.gateway();
    const wanted = [
      ...["payment-signature", "x-payment", "content-type", "access-control-expose-headers"],
      ...["sign-in-with-x", "x-platform-quote", "x-platform-caller-sig"],
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
  });

  test("before its body is read: of ten megabytes nothing is taken, and the connection ends", async () => {
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

  test("a client that waits for 100-continue gets the 402 instead", async () => {
    const x402 = await fixture.gateway();
    const head = `POST ${JOB_PATH} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`;
    const raw = openRaw(x402.address, head);
    await eventually("an answer", () => raw.received().endsWith("}"));
    expect(raw.received()).toMatch(/^HTTP\/1\.1 402 /);
    raw.socket.destroy();
  });
});

describe("the price", () => {
  test("names the endpoint by the public URL, never by a Host header", async () => {
    const x402 = await fixture.gateway({ x402: twoTokens(), early: true });
    const headers = { Host: "evil.test", "X-Forwarded-Host": "evil.test" };
    const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/price`, headers });
    const { network, token, seller } = fixture.devnet;
    const common = {
      protocol: "x402",
      pay_to: seller,
      scheme: "exact",
      x402_endpoint: `${PUBLIC_URL}${JOB_PATH}`,
    };
    expect(answer.status).toBe(200);
    expect(answer.json()).toEqual({
      service_id: 1,
      job_index: 7,
      price_wei: "1000000000000000",
      settlement_options: [
        { ...common, network, asset: token, symbol: "USDC", amount: "3200000" },
        { ...common, network: "eip155:31337", asset: ASSET_18, symbol: "DAY", amount: "3200000000000000000" },
      ],
      policy: "public_paid",
    });
    const challenge = await send(x402.address, { path: JOB_PATH, headers, body: "" });
    expect(JSON.stringify(requiredIn(challenge)) + challenge.text).not.toContain("evil.test");
  });
});
