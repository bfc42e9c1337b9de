import { expect, test } from "vitest";
import { useEnds } from "../../../../fixtures/ends.ts";
import { useX402 } from "../../../../fixtures/x402.ts";
import { answerJson, startFaultyFacilitator } from "../../facilitator/faulty-facilitator.ts";
import { rateless } from "../../rateless.ts";

const fixture = useX402();
const ends = useEnds();

test("an unpaid request is 503 while no token has a rate, and is offered nothing", async () => {
  const x402 = await fixture.gateway({ token: rateless });
  const answer = await x402.post();
  expect([answer.status, answer.json()["code"]]).toEqual([503, "price.unavailable"]);
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect(answer.headers["payment-required"]).toBeUndefined();
});

test("a job whose tokens no facilitator takes is 503 and offered nothing", async () => {
  const its = await startFaultyFacilitator();
  ends.defer(() => its.close());
  its.on("supported", answerJson({ kinds: [{ x402Version: 2, scheme: "exact", network: "eip155:1" }] }));
  const x402 = await fixture.gateway({ x402: { facilitator_url: its.url } });
  const answer = await x402.post();
  expect([answer.status, answer.json()["code"]]).toEqual([503, "price.unavailable"]);
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect(answer.headers["payment-required"]).toBeUndefined();
  const { network, token: asset } = fixture.devnet;
  expect(x402.log.events).toContainEqual({
    event: "token.unsupported",
    fields: { network, asset, symbol: "USDC" },
  });
});
