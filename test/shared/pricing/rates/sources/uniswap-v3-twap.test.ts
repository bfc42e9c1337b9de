import type { Hex } from "viem";
import { beforeAll, describe, expect, test } from "vitest";
import { parseDecimal } from "../../../../../shared/text/decimal.ts";
import { useRateSources } from "../../../../fixtures/rate-sources.ts";
import { judge } from "../../../../support/rate-tokens.ts";

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

/** One look when our clock and the chain's agree, or ours is ahead by so much. */
async function look(rate: object, aheadSecs = 0) {
  const nowMs = (Number(await fixture.timestamp()) + aheadSecs) * 1000;
  return judge(rate, { clock: () => nowMs });
}

/** 1.0001^tick with 60 digits: a fraction of integer powers, which no table helps. */
function powerDigits(tick: number): bigint {
  const [a, b] = [10001n ** BigInt(Math.abs(tick)), 10000n ** BigInt(Math.abs(tick))];
  return tick < 0 ? (b * 10n ** 60n) / a : (a * 10n ** 60n) / b;
}

/** Whether a rate is `expected / 10^60`, but for one part in 10^18. */
function isNear(rate: string | undefined, expected: bigint): boolean {
  const { numerator, denominator } = parseDecimal(rate ?? "0") ?? { numerator: 0n, denominator: 1n };
  const found = (numerator * 10n ** 60n) / denominator;
  const off = found > expected ? found - expected : expected - found;
  return off * 10n ** 18n <= expected;
}

describe("the average of a pool that stands still is its price", () => {
  test.each([
    ["native first, a negative tick", -196_256, true],
    ["native second, a positive tick", 196_256, false],
    ["native second, a negative tick", -1, false],
    ["native first, tick zero", 0, true],
  ])("%s", async (_what, tick, nativeFirst) => {
    const pool = nativeFirst ? await fixture.pool(native, usd, tick) : await fixture.pool(usd, native, tick);
    await fixture.pass(700);
    const { value } = await look(source(pool));
    // 18 decimals of the native coin against 6: a factor of 10^12.
    const expected = powerDigits(nativeFirst ? tick : -tick) * 10n ** 12n;
    expect(isNear(value, expected), value).toBe(true);
    expect(value?.replace(/^[0.]+|\./g, "").length).toBeGreaterThanOrEqual(
      nativeFirst && tick === 0 ? 1 : 18,
    );
  });
});

test("the decimals of both tokens are the contracts' own", async () => {
  const pool = await fixture.pool(other, native, 0);
  await fixture.pass(700);
  expect((await look(source(pool))).value).toBe("10000000000");
});

test("the mean tick is rounded towards negative infinity, and counts each price for its time", async () => {
  const pool = await fixture.pool(native, usd, -196_000);
  await fixture.pass(1000);
  const movedAt = await fixture.timestamp().then(async () => {
    await fixture.trade(pool, -196_007);
    return fixture.timestamp();
  });
  await fixture.pass(123);
  // An eth_call's own block is the latest one: all times are the chain's.
  const { value } = await look(source(pool));
  const end = await fixture.timestamp();
  const after = Number(end - movedAt);
  const exact = (-196_000 * (600 - after) - 196_007 * after) / 600;
  expect(Number.isInteger(exact)).toBe(false);
  expect(isNear(value, powerDigits(Math.floor(exact)) * 10n ** 12n), `${value} at ${exact}`).toBe(true);
  expect(isNear(value, powerDigits(Math.ceil(exact)) * 10n ** 12n)).toBe(false);
});

test("the average is the one at the block whose time was looked at", async () => {
  const pool = await fixture.pool(native, usd, -196_256);
  await fixture.pass(700);
  fixture.proxy.asked.length = 0;
  expect((await look(source(pool, { rpc_url: fixture.proxy.url }))).value).toBeDefined();
  const head = await fixture.client.getBlockNumber();
  const observed = fixture.proxy.asked.filter(({ params: [call] }) =>
    JSON.stringify(call).includes("0x883bdbfd"),
  );
  expect(observed.map(({ params }) => params[1])).toEqual([`0x${head.toString(16)}`]);
});

describe("there is no rate from", () => {
  test("a node that stands still, however often it is asked", async () => {
    const pool = await fixture.pool(native, usd, -196_256);
    await fixture.pass(700);
    expect((await look(source(pool), 600)).value).toBeDefined();
    expect((await look(source(pool), 601)).reason).toMatch(/latest block is older than max_age_secs: 601 s/);
    const strict = source(pool, { max_age_secs: 30 });
    expect((await look(strict, 31)).reason).toMatch(/older than max_age_secs: 31 s/);
  });

  test("a node whose clock is ahead of ours", async () => {
    const pool = await fixture.pool(native, usd, -196_256);
    await fixture.pass(700);
    expect((await look(source(pool), -60)).value).toBeDefined();
    expect((await look(source(pool), -61)).reason).toMatch(/latest block is 61 s in the future/);
  });

  test("a pool whose history is shorter than the window", async () => {
    const pool = await fixture.pool(native, usd, 5);
    await fixture.pass(60);
    expect((await look(source(pool))).reason).toMatch(/observe of 0x.*OLD/);
  });

  test("a pool of other tokens", async () => {
    const pool = await fixture.pool(other, usd, 5);
    await fixture.pass(700);
    expect((await look(source(pool))).reason).toMatch(/native_token is none of them/);
  });

  test("a contract that is no pool", async () => {
    expect((await look(source(usd))).reason).toMatch(/token0 of 0x/);
  });
});
