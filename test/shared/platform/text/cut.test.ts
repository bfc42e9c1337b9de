import { expect, test } from "vitest";
import { cut } from "../../../../shared/platform/text/cut.ts";

test.each([
  ["abc", 3, "abc"],
  ["abcd", 3, "abc"],
  ["ab\u{1f600}", 3, "ab"],
  ["ab\u{1f600}", 4, "ab\u{1f600}"],
  ["a\u{1f600}c", 3, "a\u{1f600}"],
  ["\u{1f600}", 1, ""],
])("%j cut to %i units is %j", (text, max, expected) => {
  expect(cut(text, max)).toBe(expected);
});
