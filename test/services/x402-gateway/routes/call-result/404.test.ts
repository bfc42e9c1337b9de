import { expect, test } from "vitest";
import { Secret } from "../../../../../shared/crypto/secret.ts";
import { createEnqueue } from "../../../../../shared/queue/enqueue.ts";
import { createResultTokens } from "../../../../../shared/results/token.ts";
import { useBoughtCalls } from "../../../../fixtures/bought-call.ts";
import { aCall } from "../../../../fixtures/producer.ts";
import { useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);

test("the result of a call that waits is 404, and the answer says when to ask again", async () => {
  const x402 = await fixture.gateway();
  const answer = await (await calls.buy(x402)).ask();
  expect([answer.status, answer.json()["code"]]).toEqual([404, "result.pending"]);
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
});

test("the result of a call of which nothing is known is 404 for who has its token", async () => {
  const secret = "a secret of the results of these tests";
  const x402 = await fixture.gateway({ resultSecrets: [secret] });
  const id = `c_${"0".repeat(32)}`;
  const token = createResultTokens([new Secret(secret)]).of(id);
  const answer = await send(x402.address, {
    method: "GET",
    path: `/x402/calls/${id}/result?token=${token}`,
  });
  expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
});

test("the 202 of a job that keeps no results has no token, also for its payer's repeat", async () => {
  const price = { price_wei: "1000000000000000", keep_result: false };
  const x402 = await fixture.gateway({ prices: { "7": price } });
  const headers = await x402.pay({ payer: fixture.payer });
  for (let times = 0; times < 2; times += 1) {
    const members = Object.keys((await x402.post(headers)).json());
    expect(members.filter((name) => name.startsWith("result"))).toEqual([]);
  }
});

test("a webhook's call is 404 for who has its token, as under its state and its events", async () => {
  const secret = "a secret of the results of these tests";
  const x402 = await fixture.gateway({ resultSecrets: [secret] });
  const call = aCall();
  const claim = { by: "a request", bodySha256: "", windowMs: 60_000 };
  await createEnqueue(fixture.redis.partition)(call, claim);
  const token = createResultTokens([new Secret(secret)]).of(call.id);
  for (const below of ["", "/result", "/events"]) {
    const path = `/x402/calls/${call.id}${below}?token=${token}`;
    const answer = await send(x402.address, { method: "GET", path });
    expect([below, answer.status, answer.json()["code"]]).toEqual([below, 404, "request.not_found"]);
  }
  // The fixture holds every call to be paid for.
  await fixture.redis.client.flushdb();
});
