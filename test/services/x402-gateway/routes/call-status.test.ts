import { describe, expect, test } from "vitest";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { useX402 } from "../../../fixtures/x402.ts";
import { send } from "../../../support/http.ts";
import { STEPS } from "../redis-steps.ts";

const fixture = useX402();

describe("404", () => {
  test.each([`c_${"0".repeat(32)}`, "nothing", `c_${"0".repeat(31)}`, `c_${"A".repeat(32)}`])(
    "the status of %s, a call that was never paid for, is 404",
    async (id) => {
      const x402 = await fixture.gateway();
      const answer = await send(x402.address, { method: "GET", path: `/x402/calls/${id}` });
      expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
    },
  );
});

describe("405", () => {
  test("POST to a call's status is 405 even with a payment, which stays unused, and allows GET, HEAD and OPTIONS", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const answer = await send(x402.address, { path: `/x402/calls/c_${"0".repeat(32)}`, headers });
    expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });
});

describe("503", () => {
  const proxy = useRedisProxy(fixture.redis);

  test("the status of a call is 503 while Redis cannot be read, and says when to ask again", async () => {
    const x402 = await fixture.gateway({ redisUrl: proxy.url, directUrl: fixture.redis.url });
    proxy.onCommand = (words) => (STEPS.find(words) ? { kind: "lose-command" } : undefined);
    const answer = await send(x402.address, { method: "GET", path: `/x402/calls/c_${"0".repeat(32)}` });
    expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
    expect(answer.headers["retry-after"]).toBeDefined();
  });
});
