import { test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { honouringQuotes } from "../../operator-quotes.ts";
import { expectRefusedAlike } from "./refused-alike.ts";

const fixture = useX402();

test("a dry-run with two payments is refused with 400, as the paid request is", async () => {
  const x402 = await fixture.gateway();
  const headers = { ...(await x402.pay({ payer: fixture.payer })), "X-PAYMENT": "another" };
  await expectRefusedAlike(fixture, x402, { headers, status: 400, code: "payment.ambiguous" });
});

test("a dry-run with an operator's quote that does not read is refused with 400, as the paid request is", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const headers = { ...(await x402.pay({ payer: fixture.payer })), "X-PLATFORM-QUOTE": "e30=" };
  await expectRefusedAlike(fixture, x402, { headers, status: 400, code: "quote.malformed" });
});
