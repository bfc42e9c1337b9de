import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { expectRefusedAlike } from "./refused-alike.ts";

const fixture = useX402();

test("a dry-run by a payer with as many open payments as are allowed is refused with 429, as the paid request is", async () => {
  const x402 = await fixture.gateway({ x402: { open_payments_per_payer: 1 } });
  await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
  expect((await x402.post(await x402.pay({ payer: fixture.payer }))).status).toBe(503);
  const headers = await x402.pay({ payer: fixture.payer });
  await expectRefusedAlike(fixture, x402, { headers, status: 429, code: "payment.too_many_open" });
});
