import { expect, test } from "vitest";
import { keys } from "../../../../fixtures/redis.ts";
import { useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();
const ID = `c_${"0".repeat(32)}`;

test.each([ID, "nothing", `${ID}/more`])(
  "a stream of %s, a call that nobody paid for, is 404",
  async (id) => {
    const x402 = await fixture.gateway();
    const answer = await send(x402.address, { method: "GET", path: `/x402/calls/${id}/events` });
    expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
  },
);

test("a webhook's call is watched at no payment gateway", async () => {
  const x402 = await fixture.gateway();
  await fixture.redis.client.hset(keys.record(ID), { v: "1", st: "QUEUED", at: "1" });
  const answer = await send(x402.address, { method: "GET", path: `/x402/calls/${ID}/events` });
  expect(answer.status).toBe(404);
});
