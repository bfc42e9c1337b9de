import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();

test("POST to a call's status is 405 even with a payment, which is not taken, and allows GET, HEAD and OPTIONS", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  const answer = await send(x402.address, { path: `/x402/calls/c_${"0".repeat(32)}`, headers });
  expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});
