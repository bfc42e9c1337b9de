import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { ENGINE, INPUTS, NOW_SECS, usePricing, wireRequest } from "../../../../fixtures/pricing.ts";
import { useOwnRedis } from "../../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";

const redis = useOwnRedis();
const pricing = usePricing({ redis });
const proxy = useRedisProxy(redis);

test("a request that requires a TEE is refused as UNAVAILABLE", async () => {
  const engine = await pricing.engine();
  expect(await engine.ask(wireRequest({ require_tee: true }))).toEqual({
    code: status.UNAVAILABLE,
    details: expect.stringMatching(/^require_tee: /),
  });
});

test("while Redis is away a request is refused as UNAVAILABLE at once, health with it, and quotes return with it", async () => {
  const engine = await pricing.engine();
  const request = wireRequest();
  const first = await engine.ask(request);
  await redis.server.kill("SIGKILL");
  const refused = { code: status.UNAVAILABLE, details: "Quotes cannot be given now" };
  await eventually("it is refused", async () => (await engine.ask(wireRequest())).code !== status.OK);
  const startedAt = performance.now();
  expect(await engine.ask(wireRequest())).toEqual(refused);
  expect(performance.now() - startedAt).toBeLessThan(2500);
  const health = async () =>
    (await engine.client.call("grpc.health.v1.Health", "Check", { service: ENGINE })).response?.["status"];
  await eventually("it is not healthy", async () => (await health()) === "NOT_SERVING");
  // What can be refused without Redis is.
  expect(await engine.ask(wireRequest({ requester: Buffer.alloc(20) }))).toMatchObject({
    code: status.INVALID_ARGUMENT,
  });
  expect(engine.log.events.filter(({ event }) => event === "quote.issued")).toHaveLength(1);
  await redis.server.restart();
  // Redis was killed, and nothing it was told is forgotten.
  const again = await eventually("Redis is back", async () => {
    const asked = await engine.ask(request);
    return asked.code === status.OK ? asked : undefined;
  });
  expect(again).toEqual(first);
  await eventually("it is healthy", async () => (await health()) === "SERVING");
  expect(await engine.ask(wireRequest())).toMatchObject({ code: status.OK });
});

test("before Redis was reached a request is refused as UNAVAILABLE", async () => {
  const engine = await pricing.engine({ redisUrl: "redis://127.0.0.1:1", early: true });
  expect(engine.service.readiness().ready).toBe(false);
  expect(await engine.ask(wireRequest())).toMatchObject({ code: status.UNAVAILABLE });
});

test.each([
  ["hangs", "hang"],
  ["loses a reply", "lose-reply"],
  ["loses a command", "lose-command"],
] as const)(
  "a request during which Redis %s is UNAVAILABLE in time, and repeated gets the one quote there is",
  async (_, kind) => {
    let now = NOW_SECS * 1000;
    const clock = () => now;
    const engine = await pricing.engine({ redisUrl: proxy.url, clock });
    const replica = await pricing.engine({ clock });
    await engine.ask(wireRequest());
    let faults = 0;
    proxy.onCommand = ([name]) => {
      if (!/^eval/i.test(name ?? "")) return undefined;
      faults += 1;
      return { kind };
    };
    const request = wireRequest();
    const startedAt = performance.now();
    expect(await engine.ask(request)).toMatchObject({ code: status.UNAVAILABLE });
    expect(performance.now() - startedAt).toBeLessThan(3000);
    expect(faults).toBe(1);
    proxy.onCommand = () => undefined;
    const answer = await eventually("Redis is back", async () => {
      const asked = await engine.ask(request);
      return asked.code === status.OK ? asked : undefined;
    });
    now += 2000;
    expect(await replica.ask({ ...request, inputs_hash: INPUTS })).toEqual(answer);
  },
);
