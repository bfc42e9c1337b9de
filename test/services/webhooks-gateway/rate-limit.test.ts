import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import {
  createRateLimits,
  type LimitedEndpoint,
  type Rate,
  type TakeToken,
} from "../../../services/webhooks-gateway/rate-limit.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { connectForRequests, type Redis } from "../../../shared/redis/connect.ts";
import { whenReady } from "../../../shared/redis/ready.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { keys, useOwnRedis, useRedis } from "../../fixtures/redis.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { partitionsOn } from "../../support/partitions.ts";
import { recordingLog } from "../../support/recording-log.ts";

const shared = useRedis();
const other = useOwnRedis();
const proxy = useRedisProxy(shared);
const ends = useEnds();

beforeEach(async () => {
  await shared.client.flushdb();
});

const SLOW = { perSecond: 0.01, burst: 3 };

type Settings = {
  url?: string;
  /** URL of each partition's Redis. */
  urls?: readonly string[];
  refusals?: Rate;
  timeoutMs?: number;
  now?: () => number;
};

/** Creates a replica of a gateway, with its own connections and limits. */
async function replica({ url = shared.url, urls = [url], ...settings }: Settings = {}) {
  const log = recordingLog();
  const connections = urls.map((each) => connectForRequests({ url: new Secret(each) }, log));
  for (const redis of connections) {
    ends.defer(() => redis.disconnect());
    await whenReady(redis, 5000);
  }
  const defaults = { partitions: partitionsOn(connections), log, refusals: SLOW, timeoutMs: 1000 };
  return { redis: connections[0] as Redis, log, limits: createRateLimits({ ...defaults, ...settings }) };
}

async function limited(endpoint: LimitedEndpoint) {
  const { limits } = await replica();
  const take = limits.ofEndpoint(endpoint)!;
  return (address: string) => take(address).then(() => "taken", refusal);
}

const refusal = (error: unknown) => (error as AppError).code;
const many = <Result>(count: number, work: () => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, work));
const countOf = (answers: readonly string[]) => answers.filter((answer) => answer === "taken").length;

test("two replicas that get requests at the same time together admit as many as the burst", async () => {
  const takes = [
    await limited({ path: "/a", rate: SLOW }),
    await limited({ path: "/a", rate: SLOW }),
  ] as const;
  const answers = await Promise.all(takes.map((take) => many(10, () => take("192.0.2.1"))));
  expect(countOf(answers.flat())).toBe(3);
  expect(new Set(answers.flat())).toEqual(new Set(["taken", "request.rate_limited"]));
});

test("a limited request is admitted again at the stated time, and not before", async () => {
  const { limits } = await replica();
  const take = limits.ofEndpoint({ path: "/b", rate: { perSecond: 5, burst: 1 } })!;
  await take("192.0.2.1");
  const refused = await take("192.0.2.1").catch((error: unknown) => error as AppError);
  expect(refused).toMatchObject({ code: "request.rate_limited", publicDetail: "Too many requests" });
  const { retryAfterMs = 0 } = refused as AppError;
  expect(retryAfterMs).toBeGreaterThan(0);
  expect(retryAfterMs).toBeLessThanOrEqual(200);
  await expect(take("192.0.2.1")).rejects.toBeInstanceOf(AppError);
  await delay(retryAfterMs + 2);
  await expect(take("192.0.2.1")).resolves.toBeUndefined();
});

test("a bucket gains tokens steadily, and never holds more than the burst", async () => {
  const rate = { perSecond: 1, burst: 3 };
  await many(3, async () => (await limited({ path: "/c", rate }))("192.0.2.1"));
  await passTime(shared.client, keys.limitOfEndpoint("/c"), 2);
  const afterTwoSeconds = await limited({ path: "/c", rate });
  expect(countOf(await many(5, () => afterTwoSeconds("192.0.2.1")))).toBe(2);
  await passTime(shared.client, keys.limitOfEndpoint("/c"), 3600);
  const afterAnHour = await limited({ path: "/c", rate });
  expect(countOf(await many(5, () => afterAnHour("192.0.2.1")))).toBe(3);
});

/** Changes a bucket as if this many seconds had passed. */
async function passTime(client: Redis, key: string, secs: number): Promise<void> {
  const fullAt = Number(await client.get(key));
  await client.set(key, String(fullAt - secs * 1e6));
}

test("if Redis' clock is set back, a bucket is at most emptied, and fills at its usual rate", async () => {
  const rate = { perSecond: 1, burst: 3 };
  await (await limited({ path: "/d", rate }))("192.0.2.1");
  await passTime(shared.client, keys.limitOfEndpoint("/d"), -86_400);
  const { limits } = await replica();
  const refused = await limits.ofEndpoint({ path: "/d", rate })!("192.0.2.1").catch(
    (error: unknown) => error,
  );
  expect((refused as AppError).retryAfterMs).toBeLessThanOrEqual(1000);
});

test("an address over its own limit uses no token of its endpoint or of other addresses", async () => {
  const take = await limited({
    path: "/e",
    rate: { ...SLOW, burst: 4 },
    ratePerAddress: { ...SLOW, burst: 2 },
  });
  expect(countOf(await many(10, () => take("192.0.2.1")))).toBe(2);
  expect(countOf(await many(10, () => take("192.0.2.2")))).toBe(2);
  expect(await take("192.0.2.3")).toBe("request.rate_limited");
});

test("a bucket that is full again has no key in Redis", async () => {
  const { limits } = await replica({ refusals: { perSecond: 0.1, burst: 10 } });
  await limits.refused("192.0.2.1");
  const left = await shared.client.pttl(keys.limitOfRefusals("192.0.2.1"));
  expect(left).toBeGreaterThan(0);
  expect(left).toBeLessThanOrEqual(10_000);
});

test("an empty bucket of refusals never refuses a request with a valid credential", async () => {
  const { limits } = await replica();
  const refusals = await many(10, () => limits.refused("192.0.2.1"));
  expect(refusals.map((error) => error?.code).filter((code) => code !== undefined)).toEqual(
    Array.from({ length: 7 }, () => "request.rate_limited"),
  );
  expect(await limits.refused("192.0.2.2")).toBeUndefined();
  const take = limits.ofEndpoint({ path: "/f", rate: SLOW, ratePerAddress: SLOW })!;
  await expect(take("192.0.2.1")).resolves.toBeUndefined();
});

/** Counts the commands that a replica sends. */
function countSent(redis: Redis): () => number {
  let sent = 0;
  const send = redis.sendCommand.bind(redis);
  redis.sendCommand = (...args) => {
    sent += 1;
    return send(...args);
  };
  return () => sent;
}

test("an address over its limit causes no round trip to Redis until its next token, even while Redis is unavailable", async () => {
  let now = 0;
  const { limits, redis } = await replica({ url: proxy.url, timeoutMs: 30_000, now: () => now });
  await many(4, () => limits.refused("192.0.2.1"));
  const sent = countSent(redis);
  proxy.onCommand = () => ({ kind: "hang" });
  now = 50_000;
  const answers = await many(1000, () => limits.refused("192.0.2.1"));
  expect(answers.every((error) => error?.code === "request.rate_limited")).toBe(true);
  expect(answers[0]?.retryAfterMs).toBeLessThanOrEqual(50_000);
  expect(sent()).toBe(0);
  now = 100_000;
  void limits.refused("192.0.2.1");
  expect(sent()).toBe(1);
});

test("a system clock that is set back prolongs no refusal", async () => {
  const { limits } = await replica({ refusals: { perSecond: 5, burst: 1 } });
  await many(2, () => limits.refused("192.0.2.1"));
  const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now() - 86_400_000);
  onTestFinished(() => clock.mockRestore());
  const refused = await limits.refused("192.0.2.1");
  expect(refused?.retryAfterMs).toBeLessThanOrEqual(200);
});

test("an endpoint without limits needs no check", async () => {
  const { limits } = await replica();
  expect(limits.ofEndpoint({ path: "/g" })).toBeUndefined();
});

test("while Redis does not answer, a replica counts requests itself, and logs this once", async () => {
  let now = 0;
  const { limits, log } = await replica({ url: proxy.url, timeoutMs: 500, now: () => now });
  const take = limits.ofEndpoint({ path: "/i", rate: { ...SLOW, burst: 2 } })!;
  const taken = () => take("192.0.2.1").then(() => "taken", refusal);
  expect(await taken()).toBe("taken");
  proxy.onCommand = () => ({ kind: "hang" });
  expect([await taken(), await taken(), await taken()]).toEqual(["taken", "taken", "request.rate_limited"]);
  const refused = () => limits.refused("192.0.2.1");
  for (let i = 0; i < SLOW.burst; i++) expect(await refused()).toBeUndefined();
  expect(await refused()).toMatchObject({ code: "request.rate_limited", retryAfterMs: 100_000 });
  expect(await limits.refused("192.0.2.2")).toBeUndefined();
  now = 100_000;
  expect([await taken(), await taken()]).toEqual(["taken", "request.rate_limited"]);
  const reason = "Redis did not answer within 500 ms";
  const told = { event: "rate_limit.unshared", fields: { reason } };
  expect(log.events).toEqual([told, told]);
});

test("buckets are spread over the partitions, and an unavailable partition does not affect the buckets of the others", async () => {
  const urls = [other.url, shared.url, shared.url, shared.url];
  const two = [await replica({ urls }), await replica({ urls })] as const;
  const one = { ...SLOW, burst: 1 };
  const endpoint = { path: "/j", ratePerAddress: one };
  const [first, second] = two.map(({ limits }) => limits.ofEndpoint(endpoint)!) as [TakeToken, TakeToken];
  const addresses = Array.from({ length: 64 }, (_, i) => `192.0.2.${i}`);
  const passed = async (take: TakeToken) => {
    const answers = await Promise.all(
      addresses.map((each) =>
        take(each).then(
          () => each,
          () => "",
        ),
      ),
    );
    return answers.filter((each) => each !== "");
  };
  await other.server.kill("SIGKILL");
  await eventually("both have noticed", () => two.every(({ redis }) => redis.status !== "ready"));
  expect(await passed(first)).toEqual(addresses);
  const counted = await passed(second);
  expect(counted.length).toBeGreaterThan(0);
  expect(counted.length).toBeLessThan(addresses.length / 2);
  expect(await passed(second)).toEqual([]);
});

onlyInLongRun(() => {
  /** Few enough that Redis answers all of them before a command times out. */
  const AT_ONCE = 500;

  test("if more addresses are over their limit than a process remembers, Redis decides about the oldest", async () => {
    const { limits, redis } = await replica({ refusals: { ...SLOW, burst: 1 }, timeoutMs: 60_000 });
    const addresses = Array.from({ length: 10_001 }, (_, i) => `2001:db8:${(i + 1).toString(16)}::/64`);
    const refuse = async (these: readonly string[]) => {
      for (let i = 0; i < these.length; i += AT_ONCE)
        await Promise.all(these.slice(i, i + AT_ONCE).map((each) => limits.refused(each)));
    };
    await refuse(addresses);
    await refuse(addresses);
    const sent = countSent(redis);
    const [oldest = "", ...others] = addresses;
    await refuse(others);
    expect(sent()).toBe(0);
    expect((await limits.refused(oldest))?.code).toBe("request.rate_limited");
    expect(sent()).toBe(1);
  });
});
