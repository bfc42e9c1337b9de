import { generatePrivateKey } from "viem/accounts";
import { expect, test } from "vitest";
import { createSigner } from "../../../../../shared/ethereum/signatures.ts";
import { PRICE, signOffer, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { honouringQuotes, quoteOf, signQuote } from "../../operator-quotes.ts";
import { BY_PAYER, DELEGATED, proofOf, restrictedJobs } from "../../restricted-jobs.ts";

const fixture = useX402();
const DISABLED = "/x402/jobs/1/8";
const disabled = {
  prices: { "7": "1000000000000000", "8": "1000000000000000" },
  x402: { job_policies: [{ service_id: 1, job_index: 8, invocation_mode: "disabled" }] },
};

async function expectRefused(
  x402: TestX402,
  headers: Record<string, string>,
  { path, code }: { path: string; code: string },
): Promise<void> {
  const answer = await x402.post(headers, { path });
  expect([answer.status, answer.json()["code"]]).toEqual([403, code]);
  expect(answer.headers["payment-required"]).toBeUndefined();
}

test("a payment for a disabled job is refused with 403, one that does not read too, and no facilitator is asked", async () => {
  const x402 = await fixture.gateway(disabled);
  for (const headers of [await x402.pay({ payer: fixture.payer }), { "PAYMENT-SIGNATURE": "no payment" }])
    await expectRefused(x402, headers, { path: DISABLED, code: "job.disabled" });
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});

test("a payer who is not permitted, and a caller without proof, with a wrong one or not permitted, are refused with 403", async () => {
  const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
  const payFor = async (path: string) => signOffer(await x402.post({}, { path }), { payer: fixture.payer });
  const stranger = await newPayer(fixture.devnet, 0n);
  const [byPayer, delegated] = [await payFor(BY_PAYER), await payFor(DELEGATED)];
  const jello = await proofOf({ by: stranger, body: "jello" });
  await expectRefused(x402, byPayer, { path: BY_PAYER, code: "caller.not_permitted" });
  await expectRefused(x402, delegated, { path: DELEGATED, code: "caller.missing" });
  const wrong = { path: DELEGATED, code: "caller.proof_invalid" };
  await expectRefused(x402, { ...delegated, ...jello }, wrong);
  const proof = await proofOf({ by: stranger });
  const unknown = { path: DELEGATED, code: "caller.not_permitted" };
  await expectRefused(x402, { ...delegated, ...proof }, unknown);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});

test("a payment with a caller's nonce that another payment has used is refused with 403, and not charged", async () => {
  const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
  const caller = await newPayer(fixture.devnet, 0n);
  await fixture.devnet.chain.permitCaller(1n, caller.address);
  const proof = await proofOf({ by: caller });
  const pay = async () => ({
    ...(await signOffer(await x402.post({}, { path: DELEGATED }), { payer: fixture.payer })),
    ...proof,
  });
  expect((await x402.post(await pay(), { path: DELEGATED })).status).toBe(202);
  await expectRefused(x402, await pay(), { path: DELEGATED, code: "caller.nonce_used" });
  expect(await fixture.charged()).toEqual([PRICE]);
});

test("a payment with an operator's quote that is not honoured is refused with 403, and no facilitator is asked", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const { header } = signQuote(quoteOf(fixture.payer), { by: createSigner(generatePrivateKey()) });
  const headers = { ...(await x402.pay({ payer: fixture.payer })), ...header };
  await expectRefused(x402, headers, { path: "/x402/jobs/1/7", code: "quote.rejected" });
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});
