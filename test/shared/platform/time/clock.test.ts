import { expect, test } from "vitest";
import { within } from "../../../../shared/platform/time/clock.ts";

test("work that ends within its time limit gives its result or its error", async () => {
  const error = new Error("broken");
  expect(await within(60_000, Promise.resolve(1))).toEqual({ kind: "done", result: 1 });
  expect(await within(60_000, Promise.reject(error))).toEqual({ kind: "failed", error });
});

test("work that exceeds its time limit is late, at once if no time is left", async () => {
  for (const ms of [1, 0, -5]) expect(await within(ms, new Promise(() => {}))).toEqual({ kind: "late" });
});
