import { expect, test } from "vitest";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { STEPS } from "../../redis-steps.ts";

const fixture = useX402();
const proxy = useRedisProxy(fixture.redis);

test("the status of a call is 503 while Redis cannot be read, and says when to ask again", async () => {
  const x402 = await fixture.gateway({ redisUrl: proxy.url, directUrl: fixture.redis.url });
  proxy.onCommand = (words) => (STEPS.find(words) ? { kind: "lose-command" } : undefined);
  const answer = await send(x402.address, { method: "GET", path: `/x402/calls/c_${"0".repeat(32)}` });
  expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
  expect(answer.headers["retry-after"]).toBeDefined();
});
