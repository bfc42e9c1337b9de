import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { PRICE, useX402 } from "../../../../fixtures/x402.ts";

const fixture = useX402();

test("a payer with as many open payments as are allowed is refused with 429, uncharged, until one is decided", async () => {
  const x402 = await fixture.gateway({ x402: { open_payments_per_payer: 2, settle_timeout_secs: 1 } });
  const payments = await Promise.all([1, 2, 3].map(() => x402.pay({ payer: fixture.payer })));
  const [first, second, third] = payments as [
    (typeof payments)[0],
    (typeof payments)[0],
    (typeof payments)[0],
  ];
  await fixture.devnet.control.fault({ on: "settle", kind: "status", status: 500 });
  for (const headers of [first, second]) {
    const answer = await x402.post(headers);
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
  }
  const refused = await x402.post(third);
  expect([refused.status, refused.json()["code"]]).toEqual([429, "payment.too_many_open"]);
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  expect(refused.headers["payment-required"]).toBeUndefined();

  await fixture.devnet.control.clearFaults();
  x402.skip(3000);
  for (const headers of [first, third, second])
    await eventually("it is taken", async () => (await x402.post(headers)).status === 202);
  expect(await fixture.charged()).toEqual([PRICE, PRICE, PRICE]);
});
