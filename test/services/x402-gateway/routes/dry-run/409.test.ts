import { expect, test } from "vitest";
import { JOB_PATH, signOffer, useX402 } from "../../../../fixtures/x402.ts";
import { honouringQuotes, quoteOf, signQuote } from "../../operator-quotes.ts";
import { expectRefusedAlike } from "./refused-alike.ts";

const fixture = useX402();

test("a dry-run with a known payment and another body is refused with 409, as the paid request is", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  expect((await x402.post(headers)).status).toBe(202);
  const other = { headers, body: "other", status: 409, code: "payment.conflict" };
  await expectRefusedAlike(fixture, x402, other);
});

test("a dry-run with an operator's quote that a payment has used is refused with 409, as the paid request is", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const { header } = signQuote(quoteOf(fixture.payer));
  const pay = async () => ({
    ...header,
    ...(await signOffer(await x402.post(header, { path: JOB_PATH }), { payer: fixture.payer })),
  });
  const [first, headers] = [await pay(), await pay()];
  expect((await x402.post(first)).status).toBe(202);
  // With a payment and without one: the unpaid request is told so too.
  for (const each of [headers, header])
    await expectRefusedAlike(fixture, x402, { headers: each, status: 409, code: "quote.used" });
});
