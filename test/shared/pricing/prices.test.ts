import fc from "fast-check";
import { expect, test } from "vitest";
import { UINT256_MAX } from "../../../shared/chain/encoding.ts";
import { priceProblems, type TokenRate, tokenAmount } from "../../../shared/pricing/prices.ts";

const rateOf = (rate: string, markup_bps: number, decimals: number): TokenRate => ({
  rate_per_native_unit: rate,
  markup_bps,
  decimals,
});

test.each([
  [10n ** 15n, "3200", 0, 6, 3_200_000n],
  [10n ** 15n, "3200", 200, 6, 3_264_000n],
  [10n ** 16n, "3200", 200, 6, 32_640_000n],
  [15n * 10n ** 14n, "3200", 200, 6, 4_896_000n],
  [10n ** 15n, "3200", 100, 18, 3_232_000_000_000_000_000n],
  // 20 DAI and more: beyond 2^64 units
  [10n ** 16n, "3200", 0, 18, 32n * 10n ** 18n],
  [1n, "0.5", 0, 0, 1n],
  [10n ** 18n, "0.5", 0, 0, 1n],
  [10n ** 18n + 1n, "1", 0, 18, 10n ** 18n + 1n],
  [10n ** 18n + 1n, "1", 0, 17, 10n ** 17n + 1n],
])(
  "%s wei at a rate of %s, with a markup of %s bps and %s decimals, come to %s units",
  (wei, rate, bps, decimals, amount) => {
    expect(tokenAmount(wei, rateOf(rate, bps, decimals))).toBe(amount);
  },
);

const decimalText = fc
  .tuple(fc.bigInt({ min: 0n, max: 10n ** 30n }), fc.stringMatching(/^\d{0,30}$/))
  .map(([whole, fraction]) => (fraction === "" ? `${whole}` : `${whole}.${fraction}`))
  .filter((text) => /[1-9]/.test(text));

const inputs = {
  wei: fc.bigInt({ min: 1n, max: UINT256_MAX }),
  rate: decimalText,
  bps: fc.integer({ min: 0, max: 1_000_000 }),
  decimals: fc.integer({ min: 0, max: 36 }),
};

/**
 * Computes the amount on decimal text: a schoolbook product of digits, a moved decimal point, and a check of the
 * remaining digits. It divides nothing.
 */
function byHand(wei: bigint, token: TokenRate): string {
  const [whole = "", fraction = ""] = token.rate_per_native_unit.split(".");
  const digits = multiply(multiply(`${wei}`, whole + fraction), `${10_000 + token.markup_bps}`);
  const pointFromRight = 18 + 4 + fraction.length - token.decimals;
  const padded = pointFromRight > 0 ? digits.padStart(pointFromRight + 1, "0") : digits;
  const units = pointFromRight > 0 ? padded.slice(0, -pointFromRight) : digits + "0".repeat(-pointFromRight);
  const behind = pointFromRight > 0 ? padded.slice(-pointFromRight) : "";
  return (/[1-9]/.test(behind) ? addOne(units) : units).replace(/^0+(?=\d)/, "");
}

function multiply(a: string, b: string): string {
  const result = new Array<number>(a.length + b.length).fill(0);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) {
      const sum = Number(a[i]) * Number(b[j]) + result[i + j + 1]!;
      result[i + j + 1] = sum % 10;
      result[i + j]! += Math.floor(sum / 10);
    }
  return result.join("");
}

function addOne(digits: string): string {
  const nines = /9*$/.exec(digits)![0].length;
  const head = digits.slice(0, digits.length - nines) || "0";
  return head.slice(0, -1) + (Number(head.at(-1)) + 1) + "0".repeat(nines);
}

test("an amount of tokens is the exact product rounded up, as long multiplication on decimal text computes it", () => {
  fc.assert(
    fc.property(inputs.wei, inputs.rate, inputs.bps, inputs.decimals, (wei, rate, bps, decimals) => {
      const token = rateOf(rate, bps, decimals);
      expect(String(tokenAmount(wei, token))).toBe(byHand(wei, token));
    }),
    { numRuns: 500 },
  );
});

test("an amount is never below the price, and never a whole unit above it", () => {
  fc.assert(
    fc.property(inputs.wei, inputs.rate, inputs.bps, inputs.decimals, (wei, rate, bps, decimals) => {
      const amount = tokenAmount(wei, rateOf(rate, bps, decimals));
      const [whole, fraction = ""] = rate.split(".");
      // both sides of amount / 10^decimals >= wei / 10^18 x rate x markup, without fractions
      const cost = wei * BigInt(whole + fraction) * BigInt(10_000 + bps) * 10n ** BigInt(decimals);
      const paid = (units: bigint) => units * 10n ** BigInt(18 + 4 + fraction.length);
      expect(amount >= 1n && paid(amount) >= cost && paid(amount - 1n) < cost).toBe(true);
    }),
    { numRuns: 2000 },
  );
});

test("a higher price never costs fewer tokens", () => {
  fc.assert(
    fc.property(inputs.wei, inputs.wei, inputs.rate, inputs.decimals, (one, other, rate, decimals) => {
      const [low, high] = one < other ? [one, other] : [other, one];
      const token = rateOf(rate, 0, decimals);
      expect(tokenAmount(low, token) <= tokenAmount(high, token)).toBe(true);
    }),
  );
});

const job = (priceWei: bigint) => ({ serviceId: 1, jobIndex: 7, priceWei });
const rates = [{ index: 3, ...rateOf("1", 0, 18) }];

test("a price list accepts an amount that fits into uint256 and refuses one unit more, with job and token", () => {
  expect(priceProblems([job(UINT256_MAX)], rates)).toEqual([]);
  expect(priceProblems([job(UINT256_MAX + 1n)], rates)).toEqual([
    { path: ["1", "7"], message: "is more than 2^256-1 units of accepted_tokens[3] in x402.toml" },
  ]);
});

test("a price list refuses an amount of zero, with job and token", () => {
  expect(priceProblems([job(0n)], rates)).toEqual([
    { path: ["1", "7"], message: "is 0 units of accepted_tokens[3] in x402.toml" },
  ]);
});
