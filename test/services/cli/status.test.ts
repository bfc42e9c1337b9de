import { afterEach, expect, test } from "vitest";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";

const fixture = useFailedCalls({ redis: useOwnRedis() });
afterEach(async () => {
  await fixture.redis.client.config("SET", "appendfsync", "always");
});
const { run } = usePostern(() => ({ postern: { redis: { url: fixture.redis.url } } }));

test("postern status exits with 0 while Redis keeps its promises, and with 1 and what to do once it cannot", async () => {
  await fixture.fail([{}]);
  const well = await run(["status", "--json"]);
  expect(well.code).toBe(0);
  expect(JSON.parse(well.stdout)).toMatchObject({
    queues: [{ origin: "webhook", failed: 1, oldest_age_ms: null }, { origin: "x402" }],
    redis: { durability: "strict", proof: "always" },
  });
  await fixture.redis.client.config("SET", "appendfsync", "everysec");
  const broken = await run(["status"]);
  expect(broken.code).toBe(1);
  expect(broken.stdout).toMatch(/^ORIGIN +WAITING +DELAYED +ACTIVE +FAILED .*\nwebhook +0 +0 +0 +1/m);
  expect(broken.stdout).toMatch(/NOT KEPT.*appendfsync always/);
});

test("postern status says how much of its maxmemory Redis uses, and what it means that there is none", async () => {
  const { client } = fixture.redis;
  expect((await run(["status"])).stdout).toMatch(
    /MB used\. Redis has no maxmemory, so it never says that it is full/,
  );
  await client.config("SET", "maxmemory", "100mb");
  try {
    expect((await run(["status"])).stdout).toMatch(/MB used, \d+(\.\d+)? % of maxmemory/);
    const { redis } = JSON.parse((await run(["status", "--json"])).stdout);
    expect(redis).toMatchObject({ maxmemory_bytes: 104_857_600, memory_ratio: expect.any(Number) });
  } finally {
    await client.config("SET", "maxmemory", "0");
  }
});
