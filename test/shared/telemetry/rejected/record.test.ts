import { once } from "node:events";
import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { connectForRequests } from "../../../../shared/redis/connect.ts";
import { partitionOf } from "../../../../shared/redis/partition.ts";
import { whenReady } from "../../../../shared/redis/ready.ts";
import type { Rejection } from "../../../../shared/telemetry/rejected/entry.ts";
import { createRejectedList } from "../../../../shared/telemetry/rejected/list.ts";
import { createRecordRejected } from "../../../../shared/telemetry/rejected/record.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { sentRequest } from "../../../support/sent-request.ts";

const shared = useRedis();
const proxy = useRedisProxy(shared);
const ends = useEnds();

let now: number;
const list = () => createRejectedList(shared.partition, () => now);
const all = async (path?: string) => (await list().matching({ path }, 10_000)).newest;

beforeEach(async () => {
  now = Date.UTC(2026, 0, 31);
  await shared.client.flushdb();
});

async function connected(url: string) {
  const redis = connectForRequests({ url: new Secret(url) }, silentLogger);
  ends.defer(() => redis.disconnect());
  await whenReady(redis, 5000);
  return redis;
}

async function replica({ endpoints = 1 } = {}) {
  const redis = await connected(shared.url);
  return createRecordRejected({ partition: partitionOf(redis), endpoints, clock: () => now });
}

const ADDRESS = "192.0.2.1";
const rejection = (over: Partial<Rejection> = {}) => ({
  req: sentRequest("/a"),
  code: "webhook.credential_rejected" as const,
  reason: "mismatch",
  ...over,
});

/** Refuses this number of requests, one per second so that each is recorded, and waits for each entry. */
async function refuse(record: Awaited<ReturnType<typeof replica>>, path: string, count: number, over = {}) {
  for (let i = 0; i < count; i += 1) {
    now += 1000;
    record(path, ADDRESS, () => rejection({ reason: String(i), ...over }));
    const key = keys.rejected(path);
    await eventually(
      "recorded",
      async () => (await shared.client.zrevrange(key, 0, 0))[0]?.includes(`"at":${now}`) ?? false,
    );
  }
}

test("a refused request is recorded with its description and the reason, and without header or query values", async () => {
  const record = await replica();
  const req = sentRequest("/a?token=hidden-1&hidden-2&v=3", {
    Authorization: "Bearer hidden-3",
    "X-Signature": "hidden-4",
    "Content-Length": "12",
  });
  const signatures = { came: ["X-Signature"], wanted: ["Stripe-Signature"], kind: "digest" as const };
  record("/a", ADDRESS, () => rejection({ req, signatures }));
  await eventually("recorded", async () => (await all()).length === 1);
  expect(await all()).toEqual([
    {
      id: expect.stringMatching(/^r_[0-9a-f]{19}$/),
      at: now,
      endpoint: "/a",
      address: "192.0.2.1",
      method: "POST",
      path: "/a",
      query: ["token", "...", "v"],
      code: "webhook.credential_rejected",
      reason: "mismatch",
      headers: ["Authorization", "X-Signature", "Content-Length"],
      came: ["X-Signature"],
      wanted: ["Stripe-Signature"],
      credential: "digest",
      bytes: 12,
      missed: 0,
    },
  ]);
  expect((await shared.client.zrevrange(keys.rejected("/a"), 0, -1)).join()).not.toContain("hidden");
});

test("the user and password of a target that is a whole URL are not recorded", async () => {
  const record = await replica();
  record(undefined, ADDRESS, () => rejection({ req: sentRequest("http://user:hidden@host/a@b?x=hidden") }));
  await eventually("recorded", async () => (await all()).length === 1);
  expect((await all())[0]).toMatchObject({ path: "http://host/a@b", query: ["x"], endpoint: undefined });
});

test("an entry is short and visible ASCII for any request", async () => {
  const record = await replica();
  const junk = `\x9b31m"\\\u{1f680}${"é".repeat(5000)}`;
  const headers = Object.fromEntries(
    Array.from({ length: 500 }, (_, i) => [`x-${i}-${"h".repeat(200)}`, "v"]),
  );
  const req = sentRequest(`/${junk}?${`${junk}=1&`.repeat(200)}`, headers, "M".repeat(500));
  const names = Array.from({ length: 99 }, () => junk);
  const signatures = { came: names, wanted: names };
  record("/a", junk, () => rejection({ req, signatures, reason: junk, delivery: junk }));
  await eventually("recorded", async () => (await all()).length === 1);
  const [stored = ""] = await shared.client.zrevrange(keys.rejected("/a"), 0, -1);
  expect(stored.length).toBeLessThan(4096);
  expect(stored).toMatch(/^[ -~]*$/);
});

test("only the beginning of a body is recorded", async () => {
  const record = await replica();
  record("/a", ADDRESS, () => rejection({ body: Buffer.alloc(100_000, "b"), bytes: 100_000 }));
  await eventually("recorded", async () => (await all()).length === 1);
  const [entry] = await all();
  expect(entry!.bytes).toBe(100_000);
  expect(Buffer.from(entry!.body!, "base64").toString()).toBe("b".repeat(4096));
});

onlyInLongRun(() => {
  test("the last 500 of a path are kept, and a flood at another path removes none of them", async () => {
    const record = await replica();
    await refuse(record, "/quiet", 2);
    await refuse(record, "/loud", 520);
    expect((await all("/loud")).map(({ reason }) => reason)).toEqual(
      Array.from({ length: 500 }, (_, i) => String(519 - i)),
    );
    expect(await all("/quiet")).toHaveLength(2);
  });
});

test("the entries of a path take at most its share of the bytes, with any number of endpoints", async () => {
  const record = await replica({ endpoints: 4095 });
  await refuse(record, "/a", 12, { body: Buffer.alloc(4096) });
  const stored = await shared.client.zrevrange(keys.rejected("/a"), 0, -1);
  const bytes = stored.join("").length;
  expect(bytes).toBeLessThanOrEqual(16 * 1024);
  expect(bytes).toBeGreaterThan(8 * 1024);
  expect(await shared.client.hget(keys.rejectedBytes, "/a")).toBe(String(bytes));
  expect((await all("/a"))[0]!.reason).toBe("11");
});

test("an entry is kept for seven days", async () => {
  const record = await replica();
  await refuse(record, "/a", 1);
  expect(await shared.client.pttl(keys.rejected("/a"))).toBeGreaterThan(6.9 * 86_400_000);
  now += 7 * 86_400_000 + 1;
  expect(await all("/a")).toEqual([]);
  await refuse(record, "/a", 1);
  expect(await shared.client.zcard(keys.rejected("/a"))).toBe(1);
});

test("the first requests of a flood are recorded, and then one a second with the number of omitted ones", async () => {
  const record = await replica();
  const described: number[] = [];
  const flood = () =>
    Array.from({ length: 1000 }, (_, i) =>
      record("/a", ADDRESS, () => {
        described.push(i);
        return rejection();
      }),
    );
  const counts = flood();
  expect(counts.filter((count) => count === 1)).toHaveLength(50);
  expect(described).toHaveLength(50);
  await eventually("recorded", async () => (await all()).length > 0);
  now += 1000;
  expect(record("/a", ADDRESS, rejection)).toBe(951);
  await eventually("recorded", async () => (await all())[0]?.at === now);
  const recorded = await all();
  expect(recorded.reduce((sum, { missed }) => sum + missed, recorded.length)).toBe(1001);
});

/** Refuses requests at /a until the path's own token bucket is empty. */
const flood = (record: Awaited<ReturnType<typeof replica>>, address: string) => {
  while (record("/a", address, rejection) !== undefined);
};

test("an address that floods a path hides no other address: the first refusal of each in a minute is recorded", async () => {
  const record = await replica();
  const honest = () => record("/a", "192.0.2.7", () => rejection({ reason: "honest" }));
  const entries = async () => (await all("/a")).filter(({ reason }) => reason === "honest");
  flood(record, "192.0.2.66");
  await eventually("the flood is recorded", async () => (await all("/a")).length === 32);
  for (let minute = 1; minute <= 3; minute += 1) {
    flood(record, "192.0.2.66");
    await eventually("it is recorded", async () => {
      honest();
      return (await entries()).length === minute;
    });
    now += 59_999;
    flood(record, "192.0.2.66");
    expect(honest()).toBeUndefined();
    await eventually("the flood is recorded", async () => (await all("/a"))[0]?.at === now);
    now += 1;
  }
});

test("an address is recorded at each path separately, and an IPv6 address by its /64", async () => {
  const record = await replica();
  flood(record, "2001:db8::1");
  for (let i = 0; i < 50; i += 1) record("/b", ADDRESS, rejection);
  expect(record("/b", "2001:db8::2", rejection)).toBeDefined();
  expect(record("/b", "2001:db8::3", rejection)).toBeUndefined();
});

test("a flood from many addresses adds 50 entries at all paths together, and then one a second", async () => {
  const record = await replica();
  const floodFrom = (from: number) => {
    let recorded = 0;
    for (let i = 0; i < 10_000; i += 1) {
      const address = `10.${from}.${Math.floor(i / 256)}.${i % 256}`;
      if (record(i % 2 === 0 ? "/a" : "/b", address, rejection) !== undefined) recorded += 1;
    }
    return recorded;
  };
  expect(floodFrom(1)).toBe(50 + 50 + 50);
  now += 1000;
  expect(floodFrom(2)).toBe(1 + 1 + 1);
});

test("while Redis is away no request waits, few writes are outstanding, and the next entry has the number of requests without an entry", async () => {
  const redis = await connected(proxy.url);
  const record = createRecordRejected({ partition: partitionOf(redis), endpoints: 1, clock: () => now });
  let seen = 0;
  proxy.onCommand = () => {
    seen += 1;
    return { kind: "lose-command" };
  };
  const closed = once(redis, "close");
  for (let i = 0; i < 40; i += 1) record("/a", ADDRESS, rejection);
  await closed;
  expect(seen).toBeLessThanOrEqual(32);
  record("/a", ADDRESS, rejection);
  proxy.onCommand = () => undefined;
  await whenReady(redis, 5000);
  record("/a", ADDRESS, rejection);
  await eventually("recorded", async () => (await all()).length > 0);
  expect(await all()).toMatchObject([{ missed: 41 }]);
});
