import fc from "fast-check";
import { expect, test } from "vitest";
import {
  compare,
  parseDecimal,
  type Ratio,
  scaled,
  toDecimal,
} from "../../../../shared/platform/text/decimal.ts";

const equal = (a: Ratio | undefined, b: Ratio | undefined) =>
  a !== undefined && b !== undefined && compare(a, b) === 0;

test.each([
  ["3200", 3200n, 0],
  ["0.50", 5n, -1],
  ["1e3", 1n, 3],
  ["1.25E-4", 125n, -6],
  ["12.5e+2", 1250n, 0],
  ["9007199254740993.000000000000000001", 9007199254740993000000000000000001n, -18],
])("the decimal number %s is read exactly", (text, digits, exponent) => {
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
])("%j is not a decimal number", (text) => {
  expect(parseDecimal(text)).toBeUndefined();
});

test("a finite decimal number is unchanged after formatting and parsing", () => {
  const exponent = fc.integer({ min: -60, max: 60 });
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 60n }), exponent, (digits, power) => {
      const number = scaled(digits, power);
      return equal(parseDecimal(toDecimal(number)), number);
    }),
  );
});

test("an infinite decimal number is rounded up, with an error below one part in 10^28", () => {
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
