import type { PaymentRequirements } from "@x402/core/types";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import { paymentCallId } from "../../../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../../../shared/platform/crypto/compare.ts";
import { JOB_PATH, PRICE, PUBLIC_URL, useX402 } from "../../../../fixtures/x402.ts";
import { onlyInLongRun, sample } from "../../../../support/long-run.ts";
import { encodeHeader } from "../../../../support/sign-payment.ts";
import { schemaOfBytes } from "../../job-inputs.ts";

const fixture = useX402();

function decoded(header: unknown): Record<string, unknown> {
  return JSON.parse(Buffer.from(String(header), "base64").toString()) as Record<string, unknown>;
}

/** The official client of version 2, which sends requests with `send`. */
function clientWith(send = fetch) {
  const client = new x402Client();
  client.register("eip155:*", new ExactEvmScheme(privateKeyToAccount(fixture.payer.privateKey)));
  client.setSpendControls?.(false as never);
  return wrapFetchWithPayment(send, client);
}

onlyInLongRun(() => {
  test("the official client buys a job whose schemas have the maximum size for a 402, and returns them in a header line of 8 kB", async () => {
    const description = "\u20ac".repeat(256);
    const declared = {
      ...{ input_schema: schemaOfBytes(1536), input_example: { text: "x".repeat(501) } },
      ...{ output_schema: schemaOfBytes(510), output_example: {} },
    };
    const prices = { "7": { price_wei: "1000000000000000", name: "n".repeat(32), description, ...declared } };
    const x402 = await fixture.gateway({ prices });
    let payment: string | null = null;
    const recording: typeof fetch = (request) => {
      payment = (request as Request).headers.get("payment-signature");
      return fetch(request);
    };
    const answer = await clientWith(recording)(`http://${x402.address}${JOB_PATH}`, {
      method: "POST",
      body: "{}",
    });
    expect(answer.status).toBe(202);
    expect(decoded(payment)["extensions"]).toHaveProperty("bazaar.schema.properties.output");
    expect(`PAYMENT-SIGNATURE: ${payment}\r\n`.length).toBeLessThanOrEqual(8192);
    expect(await fixture.charged()).toEqual([PRICE]);
    const again = await x402.post({ "PAYMENT-SIGNATURE": String(payment) }, { body: "{}" });
    expect(again.status).toBe(202);
  });
});

test("a payment by the official client of version 2 is answered 202, and is one charge and one job", async () => {
  const x402 = await fixture.gateway();
  const fetchWithPayment = clientWith();
  const answer = await fetchWithPayment(`http://${x402.address}${JOB_PATH}`, {
    method: "POST",
    body: "hello",
  });
  expect(answer.status).toBe(202);
  const body = (await answer.json()) as Record<string, unknown>;
  expect(body).toMatchObject({ status: "accepted", service_id: 1, job_index: 7 });
  expect(body["status_url"]).toBe(`${PUBLIC_URL}/x402/calls/${String(body["call_id"])}`);
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(decoded(answer.headers.get("payment-response"))).toMatchObject({
    success: true,
    network: fixture.devnet.network,
    transaction: body["transaction"],
  });
  expect(await fixture.charged()).toEqual([PRICE]);
  expect(await fixture.asked()).toEqual({ verify: 1, settle: 1 });
  const [call] = await x402.waiting();
  expect(call).toMatchObject({ id: body["call_id"], origin: "x402", job_id: 7 });
  expect(Buffer.from(String(call?.body), "base64").toString()).toBe("hello");
});

test("a payment by a client of version 1, which reads only the body of the 402, is answered 202", async () => {
  const x402 = await fixture.gateway();
  const asked = await x402.post();
  const { x402Version, accepts } = asked.json<{ x402Version: number; accepts: object[] }>();
  expect(x402Version).toBe(1);
  const client = new ExactEvmSchemeV1(privateKeyToAccount(fixture.payer.privateKey));
  const payload = await client.createPaymentPayload(x402Version, accepts[0] as PaymentRequirements);

  const answer = await x402.post({ "X-PAYMENT": encodeHeader(payload) });
  expect(answer.status).toBe(202);
  expect(answer.headers["payment-response"]).toBeUndefined();
  expect(decoded(answer.headers["x-payment-response"])).toMatchObject({
    success: true,
    network: "base-sepolia",
    transaction: answer.json()["transaction"],
  });
  expect(await fixture.charged()).toEqual([PRICE]);
  const [call] = await x402.waiting();
  expect(call?.metadata).toMatchObject({
    "X-X402-PAYMENT-NETWORK": fixture.devnet.network,
    "X-X402-PAYER": fixture.payer.address.toLowerCase(),
    "X-X402-QUOTE-DIGEST": expect.stringMatching(/^0x[0-9a-f]{64}$/),
  });
});

test("the metadata of a paid call is complete and comes from verified data, never from the request", async () => {
  const x402 = await fixture.gateway();
  const { address } = fixture.payer;
  const payment = await x402.pay({ payer: fixture.payer });
  const { accepted } = decoded(payment["PAYMENT-SIGNATURE"]) as { accepted: PaymentRequirements };
  const claims = Object.fromEntries(
    ["PAYER", "AMOUNT", "TRANSACTION", "QUOTE-DIGEST", "ORIGIN"].map((name) => [`X-X402-${name}`, "mine"]),
  );
  const answer = await x402.post({ ...payment, ...claims, "X-PLATFORM-CALLER": address });
  const [transfer] = await fixture.devnet.chain.transfers(fixture.devnet.seller).then((all) => all.slice(-1));
  const id = paymentCallId({
    chainId: 84532,
    method: "eip3009",
    asset: fixture.devnet.token,
    payer: address,
    nonce: transfer?.nonce ?? "",
  });
  const digest = accepted.extra["quoteDigest"];
  const [call] = await x402.waiting();
  expect(call?.metadata).toEqual({
    "X-PLATFORM-SERVICE-ID": "1",
    "X-PLATFORM-CALL-ID": id,
    "X-X402-ORIGIN": "x402",
    "X-X402-QUOTE-DIGEST": digest,
    "X-X402-PAYMENT-NETWORK": fixture.devnet.network,
    "X-X402-PAYMENT-TOKEN": "USDC",
    "X-X402-PAYER": address.toLowerCase(),
    "X-X402-TRANSACTION": transfer?.transaction,
    "X-X402-AMOUNT": String(PRICE),
  });
  expect(answer.json()["receipt"]).toEqual({
    network: fixture.devnet.network,
    asset: fixture.devnet.token,
    symbol: "USDC",
    amount: String(PRICE),
    payer: address.toLowerCase(),
    pay_to: fixture.devnet.seller,
    transaction: transfer?.transaction,
    quote_digest: digest,
  });
});

const BODIES: readonly [string, Buffer][] = [
  ["every possible byte", Buffer.from(Array.from({ length: 256 }, (_, i) => i))],
  ["no body", Buffer.alloc(0)],
  ["bytes that are not text", Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28])],
  ["a megabyte", Buffer.alloc(1024 * 1024, 0xa5)],
];
test.each(sample(BODIES))("the body of a paid call arrives unchanged: %s", async (_name, body) => {
  const x402 = await fixture.gateway();
  const answer = await x402.post(
    { ...(await x402.pay({ payer: fixture.payer })), "Content-Type": "a/b; c=d" },
    { body },
  );
  expect(answer.status).toBe(202);
  const [call] = await x402.waiting();
  expect(sha256Hex(Buffer.from(String(call?.body), "base64"))).toBe(sha256Hex(body));
  expect(call).toMatchObject({ bytes: body.length, sha256: sha256Hex(body), content_type: "a/b; c=d" });
});
