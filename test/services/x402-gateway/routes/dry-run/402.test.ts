import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";
import { BY_PAYER, restrictedJobs } from "../../restricted-jobs.ts";
import { expectRefusedAlike } from "./refused-alike.ts";

const fixture = useX402();

test("a dry-run without a payment, of a job whose payer must be permitted, is 402: it needs one", async () => {
  const x402 = await fixture.gateway(restrictedJobs(fixture.devnet));
  const answer = await x402.post({}, { path: `${BY_PAYER}/auth-dry-run` });
  expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.required"]);
});

test("a dry-run with a payment header that does not read is refused with 402, as the paid request is", async () => {
  const x402 = await fixture.gateway();
  const headers = { "PAYMENT-SIGNATURE": "AAAA" };
  await expectRefusedAlike(fixture, x402, { headers, status: 402, code: "payment.malformed" });
});

test("a dry-run with a payment of another price is refused with 402, as the paid request is", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer, value: 1n });
  await expectRefusedAlike(fixture, x402, { headers, status: 402, code: "payment.not_offered" });
});

test("a dry-run by a payer without the money is refused with 402, as the paid request is", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: await newPayer(fixture.devnet, 0n) });
  await expectRefusedAlike(fixture, x402, { headers, status: 402, code: "payment.rejected" });
});
