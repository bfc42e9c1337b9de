import { expect, test } from "vitest";
import { JOB_PATH, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { rateless } from "../../rateless.ts";
import { expectRefusedAlike } from "./refused-alike.ts";

const fixture = useX402();

const DRY_RUN = `${JOB_PATH}/auth-dry-run`;

test("a dry-run is 503 while no token has a rate", async () => {
  const x402 = await fixture.gateway({ token: rateless });
  const unpaid = await x402.post({}, { path: DRY_RUN });
  expect([unpaid.status, unpaid.json()["code"]]).toEqual([503, "price.unavailable"]);
  expect(Number(unpaid.headers["retry-after"])).toBeGreaterThan(0);
});

test.each([
  ["a payment header that does not read", async () => ({ "PAYMENT-SIGNATURE": "AAAA" })],
  ["a version 1 payment", (before: TestX402) => before.payV1({ payer: fixture.payer })],
] as const)("a dry-run with %s is 503 without a rate, as the paid request is", async (_what, pay) => {
  const headers = { ...(await pay(await fixture.gateway())) };
  const x402 = await fixture.gateway({ token: rateless });
  await expectRefusedAlike(fixture, x402, { headers, status: 503, code: "price.unavailable" });
});

test("a dry-run is 503 at a gateway that was stopped, with a payment or without, as the paid request is", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  x402.gateway.stop();
  await expectRefusedAlike(fixture, x402, { headers, status: 503, code: "service.draining" });
  const unpaid = await x402.post({}, { path: DRY_RUN });
  expect([unpaid.status, unpaid.json()["code"]]).toEqual([503, "service.draining"]);
});

test("a dry-run with a payment whose outcome is unknown is 503, as the paid request is", async () => {
  const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
  expect((await x402.post(headers)).status).toBe(503);
  const answers = await Promise.all([DRY_RUN, JOB_PATH].map((path) => x402.post(headers, { path })));
  for (const answer of answers)
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
});
