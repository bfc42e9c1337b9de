import { describe, expect, test } from "vitest";
import { PRICE, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { codeOf } from "../../../../support/books.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { type Answer, send } from "../../../../support/http.ts";
import { authorizationIn } from "../../../../support/sign-payment.ts";
import { declaring, FITS, UNFIT } from "../../job-inputs.ts";
import { settlementIn } from "./prefer-wait.ts";

const fixture = useX402();
const KEY = { "Idempotency-Key": "order 4711".replace(" ", "_") };
const NO_JOB = "/x402/jobs/1/99";

describe.each([
  { pay: "pay", header: "payment-response", network: "eip155:84532" },
  { pay: "payV1", header: "x-payment-response", network: "base-sepolia" },
] as const)("$header", ({ pay, header, network }) => {
  /** Expects that the answer says that the payment was not charged. */
  function expectUncharged(answer: Answer, status: number, code: string): void {
    expect([answer.status, codeOf(answer)]).toEqual([status, code]);
    const payer = fixture.payer.address.toLowerCase();
    expect(settlementIn(answer, header)).toEqual({
      ...{ success: false, errorReason: code, transaction: "", network, payer },
    });
  }

  test(`says before the claim that nothing was charged, and after the purchase that it was charged (${pay})`, async () => {
    const x402 = await fixture.gateway(declaring);
    const [first, second] = [
      await x402[pay]({ payer: fixture.payer }),
      await x402[pay]({ payer: fixture.payer }),
    ];
    expectUncharged(await x402.post(first, { path: NO_JOB }), 404, "job.not_found");
    expectUncharged(await x402.post(first, { body: UNFIT }), 422, "request.input_invalid");
    const encoded = { ...first, "Content-Encoding": "gzip" };
    expectUncharged(await x402.post(encoded, { body: FITS }), 415, "request.encoding_unsupported");
    expect(await fixture.charged()).toEqual([]);
    const bought = await x402.post({ ...first, ...KEY }, { body: FITS });
    expect([bought.status, settlementIn(bought, header).success]).toEqual([202, true]);
    const reused = await x402.post({ ...second, ...KEY }, { body: '{"items":[4]}' });
    expectUncharged(reused, 422, "payment.idempotency_key_reused");
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});

/** Expects that the answer says nothing about the payment's settlement, because it was or may still be charged. */
function expectSilent(answer: Answer, status: number, code: string): void {
  expect([answer.status, codeOf(answer)]).toEqual([status, code]);
  expect(answer.headers).not.toHaveProperty("payment-response");
  expect(answer.headers).not.toHaveProperty("x-payment-response");
}

const twoJobs = { prices: { "7": "1000000000000000", "8": "1000000000000000" } };

test("a refusal of a payment that was charged for something else says nothing of its settlement", async () => {
  const x402 = await fixture.gateway(twoJobs);
  const headers = await x402.pay({ payer: fixture.payer });
  expect((await x402.post(headers)).status).toBe(202);
  for (const other of [{ body: "other" }, { path: "/x402/jobs/1/8" }, { path: NO_JOB }])
    expectSilent(await x402.post(headers, other), 409, "payment.conflict");
  const spent = await x402.pay({ payer: fixture.payer });
  fixture.foreign.push(authorizationIn(spent).authorization.nonce);
  await fixture.devnet.chain.frontRun(authorizationIn(spent));
  expectSilent(await x402.post(spent), 409, "payment.spent_elsewhere");
});

test("an unknown outcome says nothing of the payment's settlement", async () => {
  const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
  await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
  expectSilent(await x402.post(await x402.pay({ payer: fixture.payer })), 503, "payment.outcome_unknown");
});

test("a request that the payer has not signed gets no PAYMENT-RESPONSE", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  expect((await x402.post(headers)).status).toBe(202);
  expectSilent(await forged(x402, headers), 404, "job.not_found");
});

/** Replaces the signature by another payer's, and sends the payment for a job that is not for sale. */
async function forged(x402: TestX402, headers: Record<string, string>): Promise<Answer> {
  const sent = JSON.parse(Buffer.from(String(headers["PAYMENT-SIGNATURE"]), "base64").toString());
  const other = await x402.pay({ payer: await newPayer(fixture.devnet) });
  sent.payload.signature = authorizationIn(other).signature;
  const header = Buffer.from(JSON.stringify(sent)).toString("base64");
  return send(x402.address, { path: NO_JOB, headers: { "PAYMENT-SIGNATURE": header }, body: "hello" });
}
