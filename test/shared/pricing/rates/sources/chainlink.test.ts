import type { Hex } from "viem";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { freePort } from "../../../../../shared/dev/free-port.ts";
import { type Round, useRateSources } from "../../../../fixtures/rate-sources.ts";
import { readRateOnce } from "../../../../support/rate-tokens.ts";

const fixture = useRateSources();
let feed: Hex;
let sequencer: Hex;
beforeAll(async () => {
  feed = await fixture.feed();
  sequencer = await fixture.feed(0);
});
beforeEach(async () => {
  await fixture.breakFeed(feed, false);
});

const now = () => BigInt(Math.floor(Date.now() / 1000));
const source = (more: object = {}) => ({
  source: "chainlink",
  rpc_url: fixture.proxy.url,
  feed,
  max_age_secs: 3600,
  ...more,
});

test("the rate of a feed is its answer scaled exactly by its decimals", async () => {
  await fixture.write(feed, { answer: 320012345678n });
  expect(await readRateOnce(source())).toEqual({
    source: expect.stringMatching(/^chainlink 0x/),
    value: "3200.12345678",
  });
});

test("a feed's answer that is too large for a double keeps all its digits", async () => {
  const wide = await fixture.feed(18);
  await fixture.write(wide, { answer: 3200123456789012345678n });
  expect((await readRateOnce(source({ feed: wide }))).value).toBe("3200.123456789012345678");
});

test("an inverted feed gives native units for a token", async () => {
  await fixture.write(feed, { answer: 25_000n });
  expect((await readRateOnce(source({ invert: true }))).value).toBe("4000");
  await fixture.write(feed, { answer: 30_000n });
  expect((await readRateOnce(source({ invert: true }))).value).toBe(`3333.${"3".repeat(25)}4`);
});

test.each([
  ["is negative", { answer: -1n }, /answers -1/],
  ["is zero", { answer: 0n }, /answers 0/],
  ["comes from a round that is not complete", { updatedAt: 0n }, /not complete/],
  ["is carried over from an older round", { answeredInRound: 6n }, /round 6, but the latest round is 7/],
  ["is from the future", { updatedAt: now() + 120n }, /in the future/],
  ["is older than max_age_secs", { updatedAt: now() - 3700n }, /older than max_age_secs/],
] as [string, Round, RegExp][])("a feed's answer that %s gives no rate", async (_what, round, reason) => {
  await fixture.write(feed, round);
  expect(await readRateOnce(source())).toEqual({
    source: expect.anything(),
    reason: expect.stringMatching(reason),
  });
});

test("a feed that reverts gives no rate", async () => {
  await fixture.breakFeed(feed);
  expect((await readRateOnce(source())).reason).toMatch(/latestRoundData of 0x.*No data present/);
});

test("an address without a feed gives no rate", async () => {
  const reason = /too short; check that the address is the right contract/;
  expect((await readRateOnce(source({ feed: `0x${"11".repeat(20)}` }))).reason).toMatch(reason);
});

test("a node that fails, is silent or does not exist gives no rate, and its URL is never shown", async () => {
  await fixture.write(feed);
  fixture.proxy.answer = "failing";
  const failing = await readRateOnce(source());
  fixture.proxy.answer = "silent";
  const silent = await readRateOnce(source(), { timeoutMs: 100 });
  const absent = await readRateOnce(
    source({ rpc_url: `http://127.0.0.1:${await freePort()}/canary-canary-key` }),
  );
  expect(failing.reason).toMatch(/status 500/);
  expect(silent.reason).toMatch(/no answer within 100 ms/);
  expect(absent.reason).toMatch(/ECONNREFUSED/);
  expect(JSON.stringify([failing, silent, absent])).not.toMatch(/canary|127\.0\.0\.1/);
});

test("a feed's answer is accepted up to an age of max_age_secs, and up to a minute in the future", async () => {
  const at = now();
  const read = async (offset: bigint) => {
    await fixture.write(feed, { updatedAt: at - offset });
    return (await readRateOnce(source(), { clock: () => Number(at) * 1000 })).value;
  };
  expect([await read(3600n), await read(-60n)]).toEqual(["3200", "3200"]);
  expect([await read(3601n), await read(-61n)]).toEqual([undefined, undefined]);
});

const watched = () => source({ sequencer_feed: sequencer, sequencer_grace_secs: 600 });
test.each([
  ["is up for longer than the grace counts", { answer: 0n, startedAt: now() - 700n }, undefined],
  ["is down does not count", { answer: 1n, startedAt: now() - 700n }, /sequencer is down/],
  [
    "is up again within the grace does not count",
    { answer: 0n, startedAt: now() - 500n },
    /sequencer_grace_secs/,
  ],
  ["is not known to have started does not count", { answer: 0n, startedAt: 0n }, /sequencer_grace_secs/],
] as [string, Round, RegExp | undefined][])(
  "the rate of a rollup whose sequencer %s",
  async (_what, round, reason) => {
    await fixture.write(feed);
    await fixture.write(sequencer, round);
    const verdict = await readRateOnce(watched());
    if (reason === undefined) expect(verdict.value).toBe("3200");
    else expect([verdict.value, verdict.reason]).toEqual([undefined, expect.stringMatching(reason)]);
  },
);

test("a rate outside its bounds is refused, but one on them is accepted", async () => {
  await fixture.write(feed, { answer: 320000000001n });
  expect((await readRateOnce(source(), {}, { max_rate: "3200" })).reason).toMatch(/above max_rate/);
  expect((await readRateOnce(source(), {}, { max_rate: "3200.00000001" })).value).toBe("3200.00000001");
  expect((await readRateOnce(source(), {}, { min_rate: "3200.00000001" })).value).toBe("3200.00000001");
  expect((await readRateOnce(source(), {}, { min_rate: "3200.000000010000000001" })).reason).toMatch(
    /below min_rate/,
  );
});
