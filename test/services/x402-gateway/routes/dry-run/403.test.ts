import { expect, test } from "vitest";
import { JOB_PATH, signOffer, useX402 } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { honouringQuotes, quoteOf, signQuote } from "../../operator-quotes.ts";
import { DELEGATED, proofOf, restrictedJobs } from "../../restricted-jobs.ts";
import { expectRefusedAlike } from "./refused-alike.ts";

const fixture = useX402();

const disabled = {
  x402: { job_policies: [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }] },
};

test.each(["good", "broken"])(
  "a dry-run of a disabled job with a %s payment is refused with 403, as the paid request is",
  async (kind) => {
    const open = await fixture.gateway();
    const payment = await open.pay({ payer: fixture.payer });
    const x402 = await fixture.gateway(disabled);
    const headers = kind === "good" ? payment : { "PAYMENT-SIGNATURE": "AAAA" };
    await expectRefusedAlike(fixture, x402, { headers, status: 403, code: "job.disabled" });
  },
);

test("a dry-run of a permitted callers' job without a proof is refused with 403, with a payment or without", async () => {
  const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
  const headers = await signOffer(await x402.post({}, { path: DELEGATED }), { payer: fixture.payer });
  const missing = { path: DELEGATED, status: 403, code: "caller.missing" };
  await expectRefusedAlike(fixture, x402, { headers, ...missing });
  const unpaid = await x402.post({}, { path: `${DELEGATED}/auth-dry-run` });
  expect([unpaid.status, unpaid.json()["code"]]).toEqual([403, "caller.missing"]);
});

test("a dry-run with a caller's nonce that a payment has used is refused with 403", async () => {
  const caller = await newPayer(fixture.devnet, 0n);
  await fixture.devnet.chain.permitCaller(1n, caller.address);
  const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
  const proof = await proofOf({ by: caller });
  const payment = await signOffer(await x402.post({}, { path: DELEGATED }), { payer: fixture.payer });
  expect((await x402.post({ ...payment, ...proof }, { path: DELEGATED })).status).toBe(202);
  const answer = await x402.post(proof, { path: `${DELEGATED}/auth-dry-run` });
  expect([answer.status, answer.json()["code"]]).toEqual([403, "caller.nonce_used"]);
});

test("a dry-run without a payment refuses with 403 an operator's quote for another job or another body", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const codeOf = async (headers: Record<string, string>, body = "hello") => {
    const answer = await x402.post(headers, { body, path: `${JOB_PATH}/auth-dry-run` });
    return [answer.status, answer.json()["code"]];
  };
  expect(await codeOf(signQuote(quoteOf(fixture.payer)).header, "jello")).toEqual([403, "quote.rejected"]);
  const another = signQuote(quoteOf(fixture.payer, { jobIndex: 8 }));
  expect(await codeOf(another.header)).toEqual([403, "quote.rejected"]);
});
