import { expect, test } from "vitest";
import { inTokens, toUnits } from "../../../services/cli/text.ts";

test.each<[bigint, number, string]>([
  [0n, 6, "0"],
  [1n, 6, "0.000001"],
  [3_200_000n, 6, "3.2"],
  [10n ** 24n, 18, "1000000"],
  [42n, 0, "42"],
])("%d units of %d decimals are %s tokens, and back", (units, decimals, text) => {
  expect(inTokens(units, decimals)).toBe(text);
  expect(toUnits(text, decimals)).toBe(units);
});

test("an amount with more decimals than the token is rounded down to the smallest unit", () => {
  expect(toUnits("0.0000001", 6)).toBe(0n);
  expect(toUnits("1.9999999", 6)).toBe(1_999_999n);
  expect(toUnits("2.5", 0)).toBe(2n);
});
