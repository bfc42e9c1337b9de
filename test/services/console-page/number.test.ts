import { expect, test } from "vitest";
import { bytes } from "../../../services/console-page/ui/number.ts";

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [1000, "1.0 kB"],
  [99_940, "99.9 kB"],
  [99_960, "100 kB"],
  [999_400, "999 kB"],
  [999_700, "1.0 MB"],
  [999_700_000_000, "1000 GB"],
  [2_500_000_000_000, "2500 GB"],
])("a size is rounded before its unit is chosen: %s", (size, text) => {
  expect(bytes(size)).toBe(text);
});
