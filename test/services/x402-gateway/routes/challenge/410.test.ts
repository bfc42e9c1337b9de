import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { honouringQuotes, quoteOf, signQuote } from "../../operator-quotes.ts";

const fixture = useX402();

test("an unpaid request with an operator's quote that has expired is refused with 410, and offered no other price", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const expiry = BigInt(Math.floor(Date.now() / 1000) - 1);
  const answer = await x402.post(signQuote(quoteOf(fixture.payer, { expiry })).header);
  expect([answer.status, answer.json()["code"]]).toEqual([410, "quote.expired"]);
  expect(answer.headers["payment-required"]).toBeUndefined();
});
