import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";

const fixture = useX402();

test("a payment header longer than HTTP headers may be is refused with 431", async () => {
  const x402 = await fixture.gateway();
  const answer = await x402.post({ "PAYMENT-SIGNATURE": "a".repeat(20_000) });
  expect([answer.status, answer.json()["code"]]).toEqual([431, "request.headers_too_large"]);
});
