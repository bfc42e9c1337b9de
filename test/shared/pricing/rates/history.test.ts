import { beforeEach, expect, test } from "vitest";
import { createReadRateHistory, type RateSpan } from "../../../../shared/pricing/rates/history.ts";
import { createSharedValue } from "../../../../shared/pricing/rates/shared-value.ts";
import type { LiveToken } from "../../../../shared/pricing/rates/source.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { tokenWith } from "../../../support/rate-tokens.ts";

const redis = useRedis();
beforeEach(() => redis.client.flushdb());

const MINUTE_MS = 60_000;
const http = { source: "http_json", url: "https://rates.example.com/eth?vs=usd", pointer: "/price" };
const live = (more: Record<string, unknown> = {}) => tokenWith(http, more) as unknown as LiveToken;
const shared = (of = live(), tokens = [of]) => createSharedValue(redis.partition, of, tokens);
const read = (span: RateSpan, of = live()) => createReadRateHistory(redis.partition)(of, span);
const keyOf = ({ network, asset }: LiveToken) => keys.rateHistory(network, asset.toLowerCase());

/** Returns the start of Redis' current minute, or waits for the next one if it is about to begin. */
async function thisMinute(): Promise<number> {
  const { now } = await shared().peek();
  return now - (now % MINUTE_MS);
}

const lengths = (values: readonly (string | undefined)[]) => {
  const runs: [string | undefined, number][] = [];
  for (const value of values) {
    const last = runs.at(-1);
    if (last !== undefined && last[0] === value) last[1] += 1;
    else runs.push([value, 1]);
  }
  return runs;
};

test("a rate stays in use until the next reading, and a time without a recent rate is a gap", async () => {
  const now = await thisMinute();
  for (const [minutesAgo, value] of [
    [50, "3100"],
    [40, "3150"],
    [10, "3200"],
  ] as const)
    await shared().put(value, now - minutesAgo * MINUTE_MS);
  const { values, stepMs, from } = await read("1h", live({ max_rate_age_secs: 900 }));
  expect([stepMs, values.length]).toEqual([MINUTE_MS, 60]);
  // Redis' clock may have reached the next minute since.
  const turned = (from - (now - 59 * MINUTE_MS)) / MINUTE_MS;
  expect(lengths(values)).toEqual([
    [undefined, 9 - turned],
    ["3100", 10],
    ["3150", 15],
    [undefined, 15],
    ["3200", 11 + turned],
  ]);
});

test("the history of a day has intervals of five minutes, and includes readings from before the last hour", async () => {
  const now = await thisMinute();
  await shared().put("3000", now - 20 * 3_600_000);
  await shared().put("3200", now - 61 * MINUTE_MS);
  const day = await read("24h");
  expect([day.stepMs, day.values.length]).toEqual([300_000, 288]);
  expect(day.values.filter((value) => value === "3000")).toHaveLength(3);
  const slow = live({ rate_refresh_secs: 3600, max_rate_age_secs: 7200 });
  expect(new Set((await read("1h", slow)).values)).toEqual(new Set(["3200"]));
});

test("of several readings in a minute the last one is kept, from any gateway", async () => {
  const now = await thisMinute();
  await shared().put("3100", now - 2 * MINUTE_MS);
  await shared(live({ min_rate: "1" })).put("3150", now - 2 * MINUTE_MS + 1000);
  expect((await read("1h")).values.filter((value) => value !== undefined)[0]).toBe("3150");
});

test("every token with a rate has its history, and keeps it when its bounds and source change", async () => {
  const other = live({ network: "eip155:1", symbol: "OTHER" });
  await shared(live(), [live(), other]).put("3200", await thisMinute());
  expect((await read("1h", other)).values.at(-1)).toBe("3200");
  expect((await read("1h", live({ min_rate: "2000", max_rate: "4000" }))).values.at(-1)).toBe("3200");
  expect((await read("1h", live({ network: "eip155:10" }))).values.at(-1)).toBeUndefined();
});

onlyInLongRun(() => {
  test("a history has a limited size for any number of readings, and is deleted a day after its last reading", async () => {
    const now = await thisMinute();
    const { put } = shared();
    for (let minutesAgo = 3000; minutesAgo >= 0; minutesAgo -= 1)
      await put(`${3000 + minutesAgo}.123456789`, now - minutesAgo * MINUTE_MS);
    expect(await redis.client.hlen(keyOf(live()))).toBe(60 + 288);
    expect(await redis.client.memory("USAGE", keyOf(live()))).toBeLessThan(50_000);
    expect(await redis.client.pttl(keyOf(live()))).toBeLessThanOrEqual(86_400_000);
    const day = await read("24h");
    // Redis' clock may have reached the next interval since, in which the last reading stays in use.
    const turned = (day.from + 287 * day.stepMs - (now - (now % day.stepMs))) / day.stepMs;
    expect(new Set(day.values).size).toBe(288 - turned);
  });
});

test("a reading of a day ago does not count as a current one, and one from the future is ignored", async () => {
  const { now } = await shared().peek();
  await shared().put("3100", now - 86_400_000);
  expect(lengths((await read("1h")).values)).toEqual([[undefined, 60]]);
  await shared().put("3300", now + 3_600_000);
  expect(lengths((await read("24h")).values).filter(([value]) => value === "3300")).toEqual([]);
});
