import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();

test("a body over the limit, declared or not, is refused with 413 before money moves", async () => {
  const x402 = await fixture.gateway({ x402: { body_limit_bytes: 100 } });
  const payment = await x402.pay({ payer: fixture.payer });
  expect((await x402.post(payment, { body: "a".repeat(101) })).status).toBe(413);
  const chunks = Array.from({ length: 11 }, () => "a".repeat(10));
  const chunked = await send(x402.address, { path: JOB_PATH, headers: payment, body: chunks });
  expect([chunked.status, chunked.json()["code"]]).toEqual([413, "request.too_large"]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  expect((await x402.post(payment, { body: "a".repeat(100) })).status).toBe(202);
});
