import fc from "fast-check";
import type { Hex } from "viem";
import { beforeAll, expect, test } from "vitest";
import { parseDecimal, type Ratio } from "../../../../../shared/platform/text/decimal.ts";
import {
  MAX_TICK,
  priceAt,
  sqrtRatioAtTick,
} from "../../../../../shared/pricing/rates/sources/uniswap-v3-twap.ts";
import { useRateSources } from "../../../../fixtures/rate-sources.ts";
import { readRateOnce } from "../../../../support/rate-tokens.ts";

const fixture = useRateSources();
let native: Hex;
let usd: Hex;
let other: Hex;
beforeAll(async () => {
  native = await fixture.token(18);
  usd = await fixture.token(6);
  other = await fixture.token(8);
});

const source = (pool: Hex, more: object = {}) => ({
  source: "uniswap_v3_twap",
  rpc_url: fixture.rpcUrl,
  pool,
  native_token: native,
  window_secs: 600,
  ...more,
});

/** Reads the rate once, with our clock ahead of the chain's by `aheadSecs`. */
async function readRate(rate: object, aheadSecs = 0) {
  const nowMs = (Number(await fixture.timestamp()) + aheadSecs) * 1000;
  return readRateOnce(rate, { clock: () => nowMs });
}

/** Returns 1.0001^tick with 60 digits, as a fraction of integer powers, without a table. */
function powerDigits(tick: number): bigint {
  const [a, b] = [10001n ** BigInt(Math.abs(tick)), 10000n ** BigInt(Math.abs(tick))];
  return tick < 0 ? (b * 10n ** 60n) / a : (a * 10n ** 60n) / b;
}

/** Whether a rate is `expected / 10^60`, within one part in 10^18. */
function isNear(rate: string | undefined, expected: bigint): boolean {
  const { numerator, denominator } = parseDecimal(rate ?? "0") ?? { numerator: 0n, denominator: 1n };
  const found = (numerator * 10n ** 60n) / denominator;
  const off = found > expected ? found - expected : expected - found;
  return off * 10n ** 18n <= expected;
}

test.each([
  ["native coin first and a negative tick", -196_256, true],
  ["native coin second and a positive tick", 196_256, false],
  ["native coin second and a negative tick", -1, false],
  ["native coin first and tick zero", 0, true],
])("the average of a pool without trades is its price, with the %s", async (_what, tick, nativeFirst) => {
  const pool = nativeFirst ? await fixture.pool(native, usd, tick) : await fixture.pool(usd, native, tick);
  await fixture.pass(700);
  const { value } = await readRate(source(pool));
  // 18 decimals of the native coin against 6: a factor of 10^12.
  const expected = powerDigits(nativeFirst ? tick : -tick) * 10n ** 12n;
  expect(isNear(value, expected), value).toBe(true);
  expect(value?.replace(/^[0.]+|\./g, "").length).toBeGreaterThanOrEqual(nativeFirst && tick === 0 ? 1 : 18);
});

test("the average of a pool uses the decimals of both tokens, as the contracts report them", async () => {
  const pool = await fixture.pool(other, native, 0);
  await fixture.pass(700);
  expect((await readRate(source(pool))).value).toBe("10000000000");
});

test("the mean tick of a pool is rounded towards negative infinity, and weighs each price by its time", async () => {
  const pool = await fixture.pool(native, usd, -196_000);
  await fixture.pass(1000);
  const movedAt = await fixture.timestamp().then(async () => {
    await fixture.trade(pool, -196_007);
    return fixture.timestamp();
  });
  await fixture.pass(123);
  // The block of an eth_call is the latest one, so all times are the chain's.
  const { value } = await readRate(source(pool));
  const end = await fixture.timestamp();
  const after = Number(end - movedAt);
  const exact = (-196_000 * (600 - after) - 196_007 * after) / 600;
  expect(Number.isInteger(exact)).toBe(false);
  expect(isNear(value, powerDigits(Math.floor(exact)) * 10n ** 12n), `${value} at ${exact}`).toBe(true);
  expect(isNear(value, powerDigits(Math.ceil(exact)) * 10n ** 12n)).toBe(false);
});

test("the average of a pool is that at the block whose time was checked", async () => {
  const pool = await fixture.pool(native, usd, -196_256);
  await fixture.pass(700);
  fixture.proxy.asked.length = 0;
  expect((await readRate(source(pool, { rpc_url: fixture.proxy.url }))).value).toBeDefined();
  const head = await fixture.client.getBlockNumber();
  const observed = fixture.proxy.asked.filter(({ params: [call] }) =>
    JSON.stringify(call).includes("0x883bdbfd"),
  );
  expect(observed.map(({ params }) => params[1])).toEqual([`0x${head.toString(16)}`]);
});

test("a node whose latest block is too old gives no rate", async () => {
  const pool = await fixture.pool(native, usd, -196_256);
  await fixture.pass(700);
  expect((await readRate(source(pool), 600)).value).toBeDefined();
  expect((await readRate(source(pool), 601)).reason).toMatch(
    /latest block is older than max_age_secs: 601 s/,
  );
  const strict = source(pool, { max_age_secs: 30 });
  expect((await readRate(strict, 31)).reason).toMatch(/older than max_age_secs: 31 s/);
});

test("a node whose clock is ahead of ours gives no rate", async () => {
  const pool = await fixture.pool(native, usd, -196_256);
  await fixture.pass(700);
  expect((await readRate(source(pool), -60)).value).toBeDefined();
  expect((await readRate(source(pool), -61)).reason).toMatch(/latest block is 61 s in the future/);
});

test("a pool whose history is shorter than the window gives no rate", async () => {
  const pool = await fixture.pool(native, usd, 5);
  await fixture.pass(60);
  expect((await readRate(source(pool))).reason).toMatch(/observe of 0x.*OLD/);
});

test("a pool of other tokens gives no rate", async () => {
  const pool = await fixture.pool(other, usd, 5);
  await fixture.pass(700);
  expect((await readRate(source(pool))).reason).toMatch(/but exactly one of them must be native_token/);
});

test("a contract that is no pool gives no rate", async () => {
  expect((await readRate(source(usd))).reason).toMatch(/token[01] of 0x/);
});

/** Returns 1.0001^ticks in units of 2^-400, by repeated squaring and without a table. */
function powerOf(ticks: number): bigint {
  const one = 1n << 400n;
  let [result, square, left] = [one, (one * 10001n) / 10000n, ticks];
  for (; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result = (result * square) >> 400n;
    square = (square * square) >> 400n;
  }
  return result;
}

/** Whether two positive numbers differ by at most one part in 2^bits. */
function near(a: Ratio, b: Ratio, bits: number): boolean {
  const [left, right] = [a.numerator * b.denominator, b.numerator * a.denominator];
  const off = left > right ? left - right : right - left;
  return off << BigInt(bits) <= right;
}

test("the root of a tick equals the result of TickMath.sol", () => {
  expect(sqrtRatioAtTick(-MAX_TICK)).toBe(4295128739n);
  expect(sqrtRatioAtTick(1 - MAX_TICK)).toBe(4295343490n);
  expect(sqrtRatioAtTick(0)).toBe(2n ** 96n);
  expect(sqrtRatioAtTick(MAX_TICK - 1)).toBe(1461373636630004318706518188784493106690254656249n);
  expect(sqrtRatioAtTick(MAX_TICK)).toBe(1461446703485210103287273052203988822378723970342n);
  expect(() => sqrtRatioAtTick(MAX_TICK + 1)).toThrow(RangeError);
  expect(() => sqrtRatioAtTick(0.5)).toThrow(RangeError);
});

test("the square of a tick's root is 1.0001^tick", () => {
  const fits = (tick: number) => {
    const root = sqrtRatioAtTick(tick);
    const power = powerOf(Math.abs(tick));
    const one = 1n << 400n;
    const truth = tick < 0 ? { numerator: one, denominator: power } : { numerator: power, denominator: one };
    // The errors from the last bit of the root, and from the last of the factors' 128 bits.
    const ofFactors = 128 - Math.ceil((Math.abs(tick) * Math.log2(1.0001)) / 2) - 6;
    const bits = Math.min(root.toString(2).length - 3, ofFactors);
    return near({ numerator: root * root, denominator: 1n << 192n }, truth, bits);
  };
  for (let bit = 0; bit < 20; bit++)
    expect([fits(2 ** bit), fits(-(2 ** bit))], `2^${bit}`).toEqual([true, true]);
  fc.assert(fc.property(fc.integer({ min: -MAX_TICK, max: MAX_TICK }), fits), { numRuns: 300 });
});

test("the price at a tick uses the decimals of both tokens", () => {
  const { numerator, denominator } = priceAt(0, { decimals0: 18, decimals1: 6 });
  expect(numerator / denominator).toBe(10n ** 12n);
});
