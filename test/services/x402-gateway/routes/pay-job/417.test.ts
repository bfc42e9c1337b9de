import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";

const fixture = useX402();

test("a paid request that expects anything but 100-continue is refused with 417, and not charged", async () => {
  const x402 = await fixture.gateway();
  const payment = await x402.pay({ payer: fixture.payer });
  const answer = await x402.post({ ...payment, Expect: "200-ok" });
  expect([answer.status, answer.json()["code"]]).toEqual([417, "request.expectation_failed"]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});
