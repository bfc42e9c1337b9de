import { verifyReceiptSignatureJWS } from "@x402/extensions/offer-receipt";
import {
  calculateJwkThumbprint,
  createLocalJWKSet,
  type JSONWebKeySet,
  type JWTPayload,
  jwtVerify,
} from "jose";
import { describe, expect, test } from "vitest";
import { type Inject, Refused } from "../../../../services/producer/producer.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import type { PaymentState } from "../../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../../shared/platform/crypto/compare.ts";
import { useBoughtCalls } from "../../../fixtures/bought-call.ts";
import { keys } from "../../../fixtures/redis.ts";
import { PRICE, PUBLIC_URL, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import { type ClientAnswer, codeOf, idOf, paymentIn } from "../../../support/books.ts";
import { type Answer, send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { newReceiptKey } from "../../../support/receipt-key.ts";
import { settlementIn, usePreferWait, WAIT } from "./pay-job/prefer-wait.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);
const waits = usePreferWait(fixture);
const [key, nextKey] = [newReceiptKey(), newReceiptKey()];

type Signed = { jws: string; salt: string };

const signing = (...keys: string[]) => fixture.gateway({ x402: { receipt_keys: keys } });
const callIdOf = (headers: Readonly<Record<string, string>>) =>
  idOf(
    { chainId: fixture.devnet.chainId, asset: fixture.devnet.token },
    paymentIn(headers) as ClientAnswer["payment"],
  );
const receiptIn = (answer: Answer) => answer.json<{ signed_receipt: Signed }>().signed_receipt;

async function keysOf(x402: TestX402): Promise<JSONWebKeySet> {
  const answer = await send(x402.address, { method: "GET", path: "/.well-known/jwks.json" });
  expect([answer.status, answer.headers["content-type"]]).toEqual([
    200,
    "application/jwk-set+json; charset=utf-8",
  ]);
  expect(answer.headers).toMatchObject({
    "cache-control": "public, max-age=300",
    "access-control-allow-origin": "*",
  });
  return answer.json<JSONWebKeySet>();
}

/** Verifies a receipt with `jose`, which shares no code with the gateway. */
async function verified({ jws }: Signed, jwks: JSONWebKeySet): Promise<JWTPayload> {
  const typ = "payment-receipt+jwt";
  const options = { issuer: PUBLIC_URL, typ, algorithms: ["EdDSA"] };
  return (await jwtVerify(jws, createLocalJWKSet(jwks), options)).payload;
}

test("the 202 has a receipt that jose verifies by the published key", async () => {
  const x402 = await signing(key.pem);
  const headers = await x402.pay({ payer: fixture.payer });
  const answer = await x402.post(headers, { body: "a body" });
  const { call_id, receipt } = answer.json<{ call_id: string; receipt: Record<string, string> }>();
  const signed = receiptIn(answer);
  const jwks = await keysOf(x402);
  const { symbol: _, ...told } = receipt;
  expect(await verified(signed, jwks)).toEqual({
    ...told,
    iss: PUBLIC_URL,
    iat: expect.closeTo(Date.now() / 1000, -2),
    ...{ call_id, service_id: 1, job_index: 7, status: "accepted" },
    body_digest: sha256Hex(Buffer.from(`${signed.salt}.${sha256Hex(Buffer.from("a body"))}`)),
  });
  expect(told).toMatchObject({
    amount: String(PRICE),
    payer: paymentIn(headers)?.payer,
    transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
    quote_digest: expect.stringMatching(/^0x[0-9a-f]{64}$/),
  });

  const [jwk, ...more] = jwks.keys;
  expect(more).toEqual([]);
  expect(jwk).toEqual({
    ...(JSON.parse(key.publicJwk) as object),
    ...{ use: "sig", alg: "EdDSA", kid: await calculateJwkThumbprint(JSON.parse(key.publicJwk)) },
  });
});

onlyInLongRun(() => {
  test("a payment of version 1 has its network in the receipt as CAIP-2", async () => {
    const x402 = await signing(key.pem);
    const answer = await x402.post(await x402.payV1({ payer: fixture.payer }));
    const { network } = await verified(receiptIn(answer), await keysOf(x402));
    expect(network).toBe(fixture.devnet.network);
  });
});

test("without receipt_keys no receipt is signed, and no keys are published", async () => {
  const x402 = await fixture.gateway();
  const answer = await x402.post(await x402.pay({ payer: fixture.payer }));
  expect(answer.status).toBe(202);
  expect(answer.json()).not.toHaveProperty("signed_receipt");
  const keys = await send(x402.address, { method: "GET", path: "/.well-known/jwks.json" });
  expect(keys.status).toBe(404);
});

onlyInLongRun(() => {
  test("the same payment at another gateway, after a restart and after a rotation has a receipt that says the same", async () => {
    const first = await signing(key.pem);
    const headers = await first.pay({ payer: fixture.payer });
    const told = receiptIn(await first.post(headers));
    await fixture.stop(first);
    const restarted = await signing(key.jwk);
    const rotated = await signing(nextKey.pem, key.publicPem);
    const again = receiptIn(await restarted.post(headers));
    const byNext = receiptIn(await rotated.post(headers));

    const jwks = await keysOf(rotated);
    expect(jwks.keys).toHaveLength(2);
    const factsIn = async (signed: Signed) => {
      const { iat: _, body_digest, ...facts } = await verified(signed, jwks);
      expect(body_digest).toBe(sha256Hex(Buffer.from(`${signed.salt}.${sha256Hex(Buffer.from("hello"))}`)));
      return facts;
    };
    expect(await factsIn(again)).toEqual(await factsIn(told));
    expect(await factsIn(byNext)).toEqual(await factsIn(told));
    await expect(verified(byNext, await keysOf(restarted))).rejects.toThrow("no applicable key");
  });

  test("a payment whose settle got no answer has a receipt once the chain has shown it to another gateway", async () => {
    const dying = await signing(key.pem);
    const headers = await dying.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "slow", delayMs: 4000 });
    const unanswered = dying.post(headers).catch(() => undefined);
    await eventually(
      "it is claimed",
      async () => (await dying.journal.find(callIdOf(headers))) !== undefined,
    );
    const x402 = await signing(nextKey.pem);
    const found = await x402.untilState(callIdOf(headers), "QUEUED");
    const answer = await x402.post(headers);
    expect(answer.status).toBe(202);
    const { transaction } = await verified(receiptIn(answer), await keysOf(x402));
    expect([transaction, found.settlement?.by]).toEqual([found.settlement?.transaction, "chain"]);
    await unanswered;
  });
});

const ENDS: readonly [string, Inject, number][] = [
  ["the result", async () => ({ status: 200, body: "done" }), 200],
  ["the failure", async () => Promise.reject(new Refused("it says no")), 502],
];
test.each(sample(ENDS))(
  "an answer that has waited for %s has the receipt of the payment in its settlement",
  async (_what, run, status) => {
    const x402 = await signing(key.pem);
    const headers = await waits.payment(x402);
    await waits.inject(run);
    const answer = await x402.post({ ...headers, ...WAIT });
    expect(answer.status).toBe(status);
    const { extensions, transaction } = settlementIn(answer);
    const claims = await verified(extensions?.["signed_receipt"] as Signed, await keysOf(x402));
    expect(claims).toMatchObject({ call_id: callIdOf(headers), transaction, status: "accepted" });
  },
);

test("only a request with the same body gets the digest of the body", async () => {
  const x402 = await signing(key.pem);
  const headers = await x402.pay({ payer: fixture.payer });
  await x402.post(headers, { body: "yes" });
  const guess = await x402.post(headers, { body: "no" });
  expect([guess.status, guess.text.includes("signed_receipt")]).toEqual([409, false]);
});

onlyInLongRun(() => {
  test("a receipt that is signed after the refund says so", async () => {
    const x402 = await signing(key.pem);
    const headers = await x402.pay({ payer: fixture.payer });
    const before = receiptIn(await x402.post(headers));
    await x402.redis.hset(keys.record(callIdOf(headers)), "st", "REFUNDED" satisfies PaymentState);
    const after = receiptIn(await x402.post(headers));
    const jwks = await keysOf(x402);
    const statusOf = async (signed: Signed) => (await verified(signed, jwks))["status"];
    expect([await statusOf(before), await statusOf(after)]).toEqual(["accepted", "refunded"]);
  });
});

test("the verifier of x402's extension offer-receipt accepts a receipt with the published key", async () => {
  const x402 = await signing(key.pem);
  const { jws } = receiptIn(await x402.post(await x402.pay({ payer: fixture.payer })));
  const { keys: published } = await keysOf(x402);
  const verify = (jwk: object) =>
    verifyReceiptSignatureJWS(
      { format: "jws", signature: jws },
      jwk as Parameters<typeof verifyReceiptSignatureJWS>[1],
    );
  const { network, payer, transaction } = await verify(published[0] ?? {});
  const claims = await verified({ jws, salt: "" }, { keys: published });
  expect({ network, payer, transaction }).toEqual({
    network: claims["network"],
    payer: claims["payer"],
    transaction: claims["transaction"],
  });
  await expect(verify(JSON.parse(nextKey.publicJwk) as object)).rejects.toThrow(
    "signature verification failed",
  );
});

describe("of a result", () => {
  const ofResult = async ({ jws }: Signed, x402: TestX402) => {
    const options = { issuer: PUBLIC_URL, typ: "result-receipt+jwt", algorithms: ["EdDSA"] };
    return (await jwtVerify(jws, createLocalJWKSet(await keysOf(x402)), options)).payload;
  };

  test("the receipt has the digest and the status of the result", async () => {
    const x402 = await signing(key.pem);
    const body = Buffer.from([0, 1, 2, 255]);
    const bought = await calls.ended(x402, async () => ({ status: 201, contentType: "image/x", body }));
    const answer = await bought.get("/receipt");
    expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json"]);
    const signed = answer.json<Signed>();
    const claims = await ofResult(signed, x402);
    const { transaction, network, payer } = bought.answer.json<{ receipt: Record<string, string> }>().receipt;
    expect(claims).toEqual({
      ...{ iss: PUBLIC_URL, iat: expect.any(Number), call_id: bought.id, service_id: 1, job_index: 7 },
      ...{ transaction, network, payer, accepted_at: expect.any(Number), ended_at: expect.any(Number) },
      ...{ status: "completed", result_status: 201, content_type: "image/x" },
      result_digest: sha256Hex(Buffer.from(`${signed.salt}.${sha256Hex(body)}`)),
    });
    const again = await bought.get("/receipt", { method: "HEAD" });
    expect(again.status).toBe(200);
  });

  onlyInLongRun(() => {
    test("the receipt of a failed call says that it failed, and has no digest", async () => {
      const x402 = await signing(key.pem);
      const bought = await calls.ended(x402, async () => {
        throw new Refused("it says no");
      });
      const signed = (await bought.get("/receipt")).json<Signed>();
      expect(Object.keys(signed)).toEqual(["jws"]);
      const claims = await ofResult(signed, x402);
      expect(claims).toMatchObject({ status: "failed", failure_code: "runner.refused", call_id: bought.id });
      expect(claims).not.toHaveProperty("result_digest");
    });
  });

  test("a receipt is refused before the result, and without the token of the call", async () => {
    const x402 = await signing(key.pem);
    const bought = await calls.buy(x402);
    expect(codeOf(await bought.get("/receipt"))).toBe("result.pending");
    for (const token of ["", "rt_wrong"]) {
      const refused = await bought.get("/receipt", { token });
      expect([refused.status, refused.text.includes("jws")]).toEqual([402, false]);
    }
    const path = `/x402/calls/c_${"0".repeat(32)}/receipt`;
    expect((await send(x402.address, { method: "GET", path })).status).toBe(402);
  });
});
