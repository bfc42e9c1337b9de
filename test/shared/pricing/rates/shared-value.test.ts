import { beforeEach, describe, expect, test } from "vitest";
import { createSharedValue, identityOf } from "../../../../shared/pricing/rates/shared-value.ts";
import type { LiveToken } from "../../../../shared/pricing/rates/source.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { tokenWith } from "../../../support/rate-tokens.ts";

const redis = useRedis();
beforeEach(() => redis.client.flushdb());

const http = { source: "http_json", url: "https://rates.example.com/eth?vs=usd", pointer: "/price" };
const live = (rate: object = http, more: object = {}) => tokenWith(rate, { ...more }) as unknown as LiveToken;
const shared = () => createSharedValue(redis.partition, live());
const onlyKey = async () => (await redis.client.keys("{postern}:rate:*"))[0] ?? "";

const isDue = async () => (await shared().takeDue()).due;
const pass = async (ms: number) => redis.client.hincrby(await onlyKey(), "due_at", -ms);

/** Returns for how long no replica may read the rate. */
async function waitMs(): Promise<number> {
  return Number(await redis.client.hget(await onlyKey(), "due_at")) - (await shared().peek()).now;
}

test("of all replicas that ask in a period, one must read the rate", async () => {
  const replies = await Promise.all(Array.from({ length: 20 }, () => shared().takeDue()));
  expect(replies.filter(({ due }) => due)).toHaveLength(1);
  await shared().put("3200", replies[0]!.now);
  await pass(50_000);
  expect(await isDue()).toBe(false);
  await pass(10_000);
  expect([await isDue(), await isDue()]).toEqual([true, false]);
});

test("a replica that gets the lease and falls silent loses it after the maximum time of a read", async () => {
  expect(await isDue()).toBe(true);
  await pass(12_000);
  expect(await isDue()).toBe(false);
  await pass(3000);
  expect(await isDue()).toBe(true);
});

test("after a failed read all replicas wait for 5 s, twice as long after each further one, and at most a period", async () => {
  const waits: number[] = [];
  for (const _ of Array.from({ length: 6 })) {
    const { now, due } = await shared().takeDue();
    expect(due).toBe(true);
    await shared().failed(now, "asleep");
    waits.push(Math.ceil((await waitMs()) / 1000));
    expect(await isDue()).toBe(false);
    await pass(60_000);
  }
  expect(waits).toEqual([5, 10, 20, 40, 60, 60]);
  const { now } = await shared().takeDue();
  await shared().put("3200", now);
  expect(Math.ceil((await waitMs()) / 1000)).toBe(60);
  await shared().failed(now, "asleep");
  expect(Math.ceil((await waitMs()) / 1000)).toBe(5);
});

test("all replicas know when and why the last read failed, until a read succeeds", async () => {
  const { now } = await shared().takeDue();
  expect((await shared().peek()).failure).toBeUndefined();
  await shared().failed(now, "asleep");
  expect((await shared().peek()).failure).toEqual({ reason: "asleep", at: now });
  await shared().failed(now + 1, "still asleep");
  expect((await shared().takeDue()).failure).toEqual({ reason: "still asleep", at: now + 1 });
  await shared().put("3200", now + 2);
  expect((await shared().peek()).failure).toBeUndefined();
});

test("a good read of the previous release, which knows no reasons, also removes the reason of a failed read", async () => {
  const { now } = await shared().takeDue();
  await shared().failed(now, "asleep");
  await redis.client.hdel(await onlyKey(), "failures");
  expect((await shared().peek()).failure).toBeUndefined();
});

test("Redis stores only the beginning of a long reason", async () => {
  const { now } = await shared().takeDue();
  await shared().failed(now, "z".repeat(100_000));
  expect((await shared().peek()).failure?.reason).toMatch(/^z{497}\.\.\.$/);
});

test("a read that fails late causes no new read if a later read has succeeded", async () => {
  const { now } = await shared().takeDue();
  await shared().put("3300", now);
  await shared().failed(now - 1, "asleep");
  expect(Math.ceil((await waitMs()) / 1000)).toBe(60);
});

test("a replica that only looks at a rate takes no lease", async () => {
  expect((await shared().peek()).due).toBe(false);
  expect((await shared().takeDue()).due).toBe(true);
});

test("the age of a shared rate counts from the start of its read, by Redis' clock", async () => {
  const { now } = await shared().takeDue();
  await shared().put("3200", now - 5000);
  const { known } = await shared().peek();
  expect(known).toMatchObject({ value: "3200", readAt: now - 5000 });
  expect(known?.ageMs).toBeGreaterThanOrEqual(5000);
});

test("a slow read of a rate does not replace the result of a later one", async () => {
  const { now } = await shared().takeDue();
  await shared().put("3300", now);
  await shared().put("3200", now - 1);
  expect((await shared().peek()).known?.value).toBe("3300");
  await shared().put("3400", now + 1);
  expect((await shared().peek()).known?.value).toBe("3400");
});

test("a shared rate from the future is ignored, for example after a change to a server whose clock is behind", async () => {
  const { now } = await shared().takeDue();
  await shared().put("3200", now);
  await redis.client.hincrby(await onlyKey(), "read_at", 3_600_000);
  await redis.client.hincrby(await onlyKey(), "due_at", 3_600_000);
  expect(await shared().takeDue()).toMatchObject({ known: undefined, due: true });
  await shared().put("3300", now);
  expect((await shared().peek()).known?.value).toBe("3300");
});

test("Redis deletes a rate that is no longer read", async () => {
  const { now } = await shared().takeDue();
  expect(await redis.client.pttl(await onlyKey())).toBeGreaterThan(900_000);
  await shared().put("3200", now);
  expect(await redis.client.pttl(await onlyKey())).toBeLessThanOrEqual(960_000);
});

describe("a shared rate", () => {
  const chainlink = {
    source: "chainlink",
    rpc_url: "https://node.example.com/v2/old-key",
    feed: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    max_age_secs: 3600,
  };
  const median = (leg: object) => ({ source: "median", of: [leg, http], max_deviation_bps: 50 });
  const isSame = (a: LiveToken, b: LiveToken) => identityOf(a) === identityOf(b);

  const withHeader = (value: string) => live(median({ ...http, headers: { Authorization: value } }));

  test("is used by tokens that differ in all other settings", () => {
    expect(isSame(withHeader("Bearer one"), withHeader("Bearer one"))).toBe(true);
    expect(isSame(live(), live(http, { symbol: "OTHER", network: "eip155:1", decimals: 18 }))).toBe(true);
  });

  test.each([
    [
      "another node",
      live(chainlink),
      live({ ...chainlink, rpc_url: "https://other.example.com/v2/old-key" }),
    ],
    [
      "another chain of the same provider",
      live({ ...chainlink, rpc_url: "https://node.example.com/base/key" }),
      live({ ...chainlink, rpc_url: "https://node.example.com/polygon/key" }),
    ],
    ["another header's value", withHeader("currency usd"), withHeader("currency eur")],
    [
      "another feed",
      live(chainlink),
      live({ ...chainlink, feed: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266" }),
    ],
    ["the feed the other way round", live(chainlink), live({ ...chainlink, invert: true })],
    ["another query", live(), live({ ...http, url: "https://rates.example.com/eth?vs=eur" })],
    ["another pointer", live(), live({ ...http, pointer: "/prices" })],
    ["other bounds", live(), live(http, { min_rate: "1" })],
    ["it in a median", live(), live(median(chainlink))],
    ["it in another median", live(median(http)), live(median(chainlink))],
  ])("is not used by a token that has %s", (_what, one, other) => {
    expect(isSame(one, other)).toBe(false);
  });
});
