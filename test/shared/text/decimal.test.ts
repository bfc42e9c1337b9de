import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { textAt } from "../../../shared/pricing/rates/sources/http-json.ts";
import { agreedMedian } from "../../../shared/pricing/rates/sources/median.ts";
import { MAX_TICK, priceAt, sqrtRatioAtTick } from "../../../shared/pricing/rates/sources/uniswap-v3-twap.ts";
import { compare, parseDecimal, type Ratio, scaled, toDecimal } from "../../../shared/text/decimal.ts";

const equal = (a: Ratio | undefined, b: Ratio | undefined) =>
  a !== undefined && b !== undefined && compare(a, b) === 0;

describe("decimals", () => {
  test.each([
    ["3200", 3200n, 0],
    ["0.50", 5n, -1],
    ["1e3", 1n, 3],
    ["1.25E-4", 125n, -6],
    ["12.5e+2", 1250n, 0],
    ["9007199254740993.000000000000000001", 9007199254740993000000000000000001n, -18],
  ])("%s is read exactly", (text, digits, exponent) => {
    expect(equal(parseDecimal(text), scaled(digits, exponent))).toBe(true);
  });

  test.each([
    "",
    "-1",
    "+1",
    "01",
    "1.",
    ".5",
    "0x10",
    "NaN",
    "Infinity",
    "1e999999999",
    "1e201",
    "1 ",
    "1,5",
    `1${"0".repeat(200)}`,
  ])("%j is none", (text) => {
    expect(parseDecimal(text)).toBeUndefined();
  });

  test("a number with an end survives being written and read", () => {
    const exponent = fc.integer({ min: -60, max: 60 });
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 60n }), exponent, (digits, power) => {
        const number = scaled(digits, power);
        return equal(parseDecimal(toDecimal(number)), number);
      }),
    );
  });

  test("a number without end is rounded up, and off by less than one part in 10^28", () => {
    const positive = fc.bigInt({ min: 1n, max: 10n ** 50n });
    fc.assert(
      fc.property(positive, positive, (numerator, denominator) => {
        const written = parseDecimal(toDecimal({ numerator, denominator })) as Ratio;
        const least = { numerator, denominator };
        const most = { numerator: numerator * (10n ** 28n + 1n), denominator: denominator * 10n ** 28n };
        return compare(written, least) >= 0 && compare(written, most) <= 0;
      }),
    );
  });
});

/** 1.0001^ticks in units of 2^-400, by multiplying: squares, and nothing that is looked up. */
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

describe("ticks of Uniswap v3", () => {
  test("known answers of TickMath.sol", () => {
    expect(sqrtRatioAtTick(-MAX_TICK)).toBe(4295128739n);
    expect(sqrtRatioAtTick(1 - MAX_TICK)).toBe(4295343490n);
    expect(sqrtRatioAtTick(0)).toBe(2n ** 96n);
    expect(sqrtRatioAtTick(MAX_TICK - 1)).toBe(1461373636630004318706518188784493106690254656249n);
    expect(sqrtRatioAtTick(MAX_TICK)).toBe(1461446703485210103287273052203988822378723970342n);
    expect(() => sqrtRatioAtTick(MAX_TICK + 1)).toThrow(RangeError);
    expect(() => sqrtRatioAtTick(0.5)).toThrow(RangeError);
  });

  test("the square of the root is 1.0001^tick", () => {
    const fits = (tick: number) => {
      const root = sqrtRatioAtTick(tick);
      const power = powerOf(Math.abs(tick));
      const one = 1n << 400n;
      const truth =
        tick < 0 ? { numerator: one, denominator: power } : { numerator: power, denominator: one };
      // What the root's last bit is worth, and what its factors' last bits of 128 are.
      const ofFactors = 128 - Math.ceil((Math.abs(tick) * Math.log2(1.0001)) / 2) - 6;
      const bits = Math.min(root.toString(2).length - 3, ofFactors);
      return near({ numerator: root * root, denominator: 1n << 192n }, truth, bits);
    };
    for (let bit = 0; bit < 20; bit++)
      expect([fits(2 ** bit), fits(-(2 ** bit))], `2^${bit}`).toEqual([true, true]);
    fc.assert(fc.property(fc.integer({ min: -MAX_TICK, max: MAX_TICK }), fits), { numRuns: 300 });
  });

  test("a price counts the decimals of both tokens", () => {
    const { numerator, denominator } = priceAt(0, { decimals0: 18, decimals1: 6 });
    expect(numerator / denominator).toBe(10n ** 12n);
  });
});

describe("a JSON pointer (RFC 6901)", () => {
  const document =
    '{"a":{"b":[10, 1.230e-2, "4.50"]},"":{"":1},"a/b":2,"m~n":3,"~1":6,"s":"x 12 \\" 9","k9":7,"o":{},"t":true,"n":null}';
  const none = [
    "/a/b/3",
    "/a/b/00",
    "/a/b/-",
    "/a/b/length",
    "/a",
    "",
    "/o",
    "/t",
    "/n",
    "/missing",
    "/__proto__",
    "/o/toString",
  ];
  const found: [string, string | undefined][] = [
    ["/a/b/0", "10"],
    ["/a/b/1", "1.230e-2"],
    ["/a/b/2", "4.50"],
    ["//", "1"],
    ["/a~1b", "2"],
    ["/m~0n", "3"],
    ["/~01", "6"],
    ["/s", 'x 12 " 9'],
    ["/k9", "7"],
  ];
  test.each([...found, ...none.map((pointer): [string, undefined] => [pointer, undefined])])(
    "%s",
    (pointer, text) => {
      expect(textAt(document, pointer)).toBe(text);
    },
  );

  test("finds numbers as they are written, however many digits they have", () => {
    expect(textAt("3200.000000000000000000000000000000001", "")).toBe(
      "3200.000000000000000000000000000000001",
    );
    expect(textAt('{"a":', "/a")).toBeUndefined();
    expect(textAt("NaN", "")).toBeUndefined();
    expect(textAt("[01]", "/0")).toBeUndefined();
  });
});

describe("a median", () => {
  const median = (values: string[], maxDeviationBps = 100, sourcesMin = 2) =>
    agreedMedian(values, { maxDeviationBps, sourcesMin });

  test("is the one in the middle, or exactly between the two", () => {
    expect(median(["3201", "3199", "3200"]).value).toBe("3200");
    expect(median(["3200", "3201"]).value).toBe("3200.5");
  });

  test("leaves out who lies, and is made of the others only", () => {
    expect(median(["3200", "32000", "3202"])).toEqual({ agrees: [true, false, true], value: "3201" });
  });

  test("agrees up to the deviation and no further", () => {
    expect(median(["100", "101", "100"]).agrees).toEqual([true, true, true]);
    expect(median(["100", "101.000000000000000000001", "100"]).agrees).toEqual([true, false, true]);
    expect(median(["100", "99", "100"]).agrees).toEqual([true, true, true]);
    expect(median(["100", "98.999999999999999999999", "100"]).agrees).toEqual([true, false, true]);
  });

  test("of two that contradict each other there is none", () => {
    expect(median(["3200", "6400"])).toEqual({ agrees: [false, false], value: undefined });
  });

  test("of fewer than wanted there is none", () => {
    expect(median(["3200"]).value).toBeUndefined();
    expect(median([]).value).toBeUndefined();
    expect(median(["3200"], 100, 1).value).toBe("3200");
  });

  test("lies between the values that agree, whatever their order", () => {
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
});
