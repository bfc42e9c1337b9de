import { expect, test } from "vitest";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { useX402 } from "../../../../fixtures/x402.ts";
import { STEPS } from "../../redis-steps.ts";

const fixture = useX402();
const proxy = useRedisProxy(fixture.redis);

test("a large paid call is claimed and queued over one connection, and all else of its payment goes over another", async () => {
  const x402 = await fixture.gateway({ redisUrl: proxy.url, directUrl: fixture.redis.url });
  const over: Partial<Record<keyof typeof STEPS, number>> = {};
  proxy.onCommand = (words, connection) => {
    for (const [name, isStep] of Object.entries(STEPS)) {
      if (isStep(words)) over[name as keyof typeof STEPS] = connection;
    }
    return undefined;
  };
  const body = Buffer.alloc(400 * 1024, "x");
  const header = await x402.pay({ payer: fixture.payer });
  expect((await x402.post(header, { body })).status).toBe(202);
  expect((await x402.waiting()).map(({ bytes }) => bytes)).toEqual([body.length]);
  const { find, claim, settled, add, queued } = over;
  expect([find, settled, queued]).toEqual([find, find, find]);
  expect([claim, add]).toEqual([add, add]);
  expect(claim).not.toBe(find);
});
