import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";

const fixture = useX402();

test("a body in a content coding is refused with 415 before money moves, and taken as identity", async () => {
  const x402 = await fixture.gateway();
  const payment = await x402.pay({ payer: fixture.payer });
  for (const coding of ["gzip", "br", "GZIP", "identity, gzip"]) {
    const answer = await x402.post({ ...payment, "Content-Encoding": coding });
    expect([answer.status, answer.json()["code"]]).toEqual([415, "request.encoding_unsupported"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
  }
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  expect((await x402.post({ ...payment, "Content-Encoding": "identity" })).status).toBe(202);
});
