import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { honouringQuotes, quoteOf, signQuote } from "../../operator-quotes.ts";

const fixture = useX402();

test("a dry-run with an operator's quote that has expired is refused with 410", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const expiry = BigInt(Math.floor(Date.now() / 1000) - 1);
  const { header } = signQuote(quoteOf(fixture.payer, { expiry }));
  const answer = await x402.post(header, { path: `${JOB_PATH}/auth-dry-run` });
  expect([answer.status, answer.json()["code"]]).toEqual([410, "quote.expired"]);
});
