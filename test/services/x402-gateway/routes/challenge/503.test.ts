import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { rateless } from "../../rateless.ts";

const fixture = useX402();

test("an unpaid request is 503 while no token has a rate, and is offered nothing", async () => {
  const x402 = await fixture.gateway({ token: rateless });
  const answer = await x402.post();
  expect([answer.status, answer.json()["code"]]).toEqual([503, "price.unavailable"]);
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect(answer.headers["payment-required"]).toBeUndefined();
});
