import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { honouringQuotes, quoteOf, signQuote } from "../../operator-quotes.ts";

const fixture = useX402();

test("a payment with an operator's quote that has expired is refused with 410, and no facilitator is asked", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const expired = quoteOf(fixture.payer, { expiry: BigInt(Math.floor(Date.now() / 1000) - 1) });
  const headers = { ...(await x402.pay({ payer: fixture.payer })), ...signQuote(expired).header };
  const answer = await x402.post(headers);
  expect([answer.status, answer.json()["code"]]).toEqual([410, "quote.expired"]);
  expect(answer.headers["payment-required"]).toBeUndefined();
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});
