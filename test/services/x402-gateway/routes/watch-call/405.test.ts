import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();

test("POST to a call's events is 405, and allows GET, HEAD and OPTIONS", async () => {
  const x402 = await fixture.gateway();
  const answer = await send(x402.address, { path: `/x402/calls/c_${"0".repeat(32)}/events` });
  expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
});
