import { expect, test } from "vitest";
import { parseMoment } from "../../../services/cli/options.ts";

const NOW = Date.UTC(2026, 0, 31, 12);

test.each([
  ["2h", NOW - 7_200_000],
  ["7d", NOW - 604_800_000],
  ["90s", NOW - 90_000],
  ["2026-01-30", Date.UTC(2026, 0, 30)],
  ["2026-01-30T10:00", Date.UTC(2026, 0, 30, 10)],
  ["2026-01-30T10:00:01.250Z", Date.UTC(2026, 0, 30, 10, 0, 1, 250)],
  ["2026-01-30T10:00+02:00", Date.UTC(2026, 0, 30, 8)],
])("%s is a valid time: an ISO date in UTC, or a duration ago", (text, at) => {
  expect(parseMoment(text, NOW)).toBe(at);
});

test.each(["", "2", "h", "2y", "-2h", "yesterday", "2026-13-01", "2026-01-30 10:00", "1.5h"])(
  "%j is refused as a time",
  (text) => {
    expect(parseMoment(text, NOW)).toBeUndefined();
  },
);
