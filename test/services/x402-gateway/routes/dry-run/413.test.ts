import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { expectRefusedAlike } from "./refused-alike.ts";

const fixture = useX402();

test("a dry-run with a body over the limit is refused with 413, with a payment or without", async () => {
  const x402 = await fixture.gateway({ x402: { body_limit_bytes: 100 } });
  const headers = await x402.pay({ payer: fixture.payer });
  const body = "a".repeat(101);
  await expectRefusedAlike(fixture, x402, { headers, body, status: 413, code: "request.too_large" });
  const unpaid = await x402.post({}, { path: `${JOB_PATH}/auth-dry-run`, body });
  expect([unpaid.status, unpaid.json()["code"]]).toEqual([413, "request.too_large"]);
});
