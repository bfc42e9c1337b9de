import { expect, test } from "vitest";
import { preferredWaitSecs } from "../../../../services/x402-gateway/payment/prefer-header.ts";

test.each([
  ["wait=10", 10],
  ["WAIT = 10", 10],
  ["wait=0010", 10],
  ["respond-async, wait=10", 10],
  ["respond-async,wait=10,,", 10],
  ['handling=lenient; foo="a, wait=3", wait=10', 10],
  ['x="\\", wait=3", wait=10', 10],
  ['wait=10; foo; bar=1; baz="q;,", return=minimal', 10],
  ["wait=31", 30],
  ["wait=99999999999999999999999999", 30],
])("a client that sends %j waits %d of at most 30 s", (header, secs) => {
  expect(preferredWaitSecs(header, 30)).toBe(secs);
});

test.each([
  "",
  ",",
  "respond-async",
  "wait",
  "wait=",
  "wait=0",
  "wait=-1",
  "wait=1.5",
  "wait=1e3",
  'wait="10"',
  "wait=10 s",
  "wait=10 20",
  "wait:10",
  "waiting=10",
  "foo; wait=10",
  'foo="wait=10"',
  // Only the first `wait` counts, even if it is invalid.
  "wait=soon, wait=10",
  "wait=0, wait=10",
  // This is not a list of preferences, because the quoted text has no end.
  'foo="a, wait=10',
  'wait=10; foo="a',
])("a client that sends %j does not wait", (header) => {
  expect(preferredWaitSecs(header, 30)).toBeUndefined();
});

test("no client waits where the maximum waiting time is 0", () => {
  expect(preferredWaitSecs("wait=10", 0)).toBeUndefined();
});

test("a long header of any kind is parsed quickly", () => {
  const since = performance.now();
  for (const unit of [",", "wait=", '"', '\\"', "; ", "wait=1;", " ", '"a",', "=", "\t;"])
    preferredWaitSecs(unit.repeat(16_384 / unit.length), 30);
  expect(performance.now() - since).toBeLessThan(500);
});
