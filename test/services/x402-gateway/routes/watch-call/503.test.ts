import { expect, test } from "vitest";
import { useBoughtCalls } from "../../../../fixtures/bought-call.ts";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { useX402 } from "../../../../fixtures/x402.ts";

const fixture = useX402();
const proxy = useRedisProxy(fixture.redis);
const calls = useBoughtCalls(fixture);

test("a stream is 503 while Redis cannot be read, and the answer says when to come again", async () => {
  const x402 = await fixture.gateway({ redisUrl: proxy.url, directUrl: fixture.redis.url });
  const bought = await calls.buy(x402);
  proxy.onCommand = (words) =>
    words.some((word) => word.endsWith(`:result:${bought.id}`)) ? { kind: "lose-command" } : undefined;
  const answer = await bought.ask("/events");
  expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
  expect(answer.headers["retry-after"]).toBeDefined();
});
