import fc from "fast-check";
import type { Hex } from "viem";
import { beforeAll, expect, test } from "vitest";
import { agreedMedian } from "../../../../../shared/pricing/rates/sources/median.ts";
import { useRateSources } from "../../../../fixtures/rate-sources.ts";
import { readRateOnce } from "../../../../support/rate-tokens.ts";

const fixture = useRateSources();
let feed: Hex;
beforeAll(async () => {
  feed = await fixture.feed();
});

const source = (more: object = {}) => ({
  source: "chainlink",
  rpc_url: fixture.proxy.url,
  feed,
  max_age_secs: 3600,
  ...more,
});

const median = (values: string[], maxDeviationBps = 100, sourcesMin = 2) =>
  agreedMedian(values, { maxDeviationBps, sourcesMin });

test("a median is the value in the middle, or exactly between the two middle ones", () => {
  expect(median(["3201", "3199", "3200"]).value).toBe("3200");
  expect(median(["3200", "3201"]).value).toBe("3200.5");
});

test("a median leaves out a value that is far off, and uses only the others", () => {
  expect(median(["3200", "32000", "3202"])).toEqual({ agrees: [true, false, true], value: "3201" });
});

test("values agree with the median up to the permitted deviation", () => {
  expect(median(["100", "101", "100"]).agrees).toEqual([true, true, true]);
  expect(median(["100", "101.000000000000000000001", "100"]).agrees).toEqual([true, false, true]);
  expect(median(["100", "99", "100"]).agrees).toEqual([true, true, true]);
  expect(median(["100", "98.999999999999999999999", "100"]).agrees).toEqual([true, false, true]);
});

test("there is no median of two values that contradict each other", () => {
  expect(median(["3200", "6400"])).toEqual({ agrees: [false, false], value: undefined });
});

test("there is no median of fewer values than required", () => {
  expect(median(["3200"]).value).toBeUndefined();
  expect(median([]).value).toBeUndefined();
  expect(median(["3200"], 100, 1).value).toBe("3200");
});

test("a median is between the values that agree, in any order", () => {
  const values = fc.array(fc.integer({ min: 1, max: 10_000 }).map(String), { minLength: 1, maxLength: 9 });
  fc.assert(
    fc.property(values, fc.integer({ min: 0, max: 10_000 }), (all, bps) => {
      const { agrees, value } = median(all, bps, 1);
      const kept = all.filter((_, i) => agrees[i]).map(Number);
      const shuffled = median([...all].reverse(), bps, 1).value;
      if (value === undefined) return kept.length === 0 && shuffled === undefined;
      return shuffled === value && Number(value) >= Math.min(...kept) && Number(value) <= Math.max(...kept);
    }),
  );
});

test("a median of five feeds with one wrong and one dead feed has a rate, and describes each of them", async () => {
  const [honest, honester, liar, dead] = [
    await fixture.feed(),
    await fixture.feed(),
    await fixture.feed(),
    await fixture.feed(),
  ];
  await fixture.write(feed, { answer: 320000000000n });
  await fixture.write(honest, { answer: 320200000000n });
  await fixture.write(honester, { answer: 320100000000n });
  await fixture.write(liar, { answer: 100000000n });
  await fixture.breakFeed(dead);
  const of = [feed, dead, honest, liar, honester].map((each) => source({ feed: each }));
  const verdict = await readRateOnce({ source: "median", of, max_deviation_bps: 100 });
  expect(verdict.value).toBe("3201");
  expect(verdict.legs?.map(({ value, reason }) => [value, reason])).toEqual([
    ["3200", undefined],
    [undefined, expect.stringMatching(/No data present/)],
    ["3202", undefined],
    ["1", expect.stringMatching(/ignored: differs by more than max_deviation_bps/)],
    ["3201", undefined],
  ]);
});

test("a median of too few sources gives no rate, and a slow source delays it at most by its own timeout", async () => {
  await fixture.write(feed);
  fixture.proxy.answer = "silent";
  const of = [source({ rpc_url: fixture.rpcUrl }), source(), source()];
  const startedAt = performance.now();
  const verdict = await readRateOnce({ source: "median", of, max_deviation_bps: 100 }, { timeoutMs: 1500 });
  expect(performance.now() - startedAt).toBeLessThan(10_000);
  expect(verdict.value).toBeUndefined();
  expect(verdict.reason).toMatch(/1 of 3 sources agree, but min_sources is 2/);
  const content = { source: "median", of, max_deviation_bps: 100, min_sources: 1 };
  expect((await readRateOnce(content, { timeoutMs: 1500 })).value).toBe("3200");
});
