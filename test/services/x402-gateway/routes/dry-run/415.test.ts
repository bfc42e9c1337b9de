import { test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { expectRefusedAlike } from "./refused-alike.ts";

const fixture = useX402();

test("a dry-run with a payment and a body in a content coding is refused with 415, as the paid request is", async () => {
  const x402 = await fixture.gateway();
  const headers = { ...(await x402.pay({ payer: fixture.payer })), "Content-Encoding": "gzip" };
  await expectRefusedAlike(fixture, x402, { headers, status: 415, code: "request.encoding_unsupported" });
});
