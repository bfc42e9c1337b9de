import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { honouringQuotes, quoteOf, signQuote } from "../../operator-quotes.ts";

const fixture = useX402();

test("an unpaid request for a disabled job is refused with 403, and offered nothing", async () => {
  const job_policies = [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }];
  const x402 = await fixture.gateway({ x402: { job_policies } });
  const answer = await x402.post();
  expect(answer.status).toBe(403);
  expect(answer.json()).toMatchObject({ code: "job.disabled", service_id: 1, job_index: 7 });
  expect(answer.headers["payment-required"]).toBeUndefined();
});

test("an unpaid request with another job's operator quote is refused with 403, and offered no other price", async () => {
  const x402 = await fixture.gateway(honouringQuotes);
  const answer = await x402.post(signQuote(quoteOf(fixture.payer, { jobIndex: 8 })).header);
  expect([answer.status, answer.json()["code"]]).toEqual([403, "quote.rejected"]);
  expect(answer.headers["payment-required"]).toBeUndefined();
});
