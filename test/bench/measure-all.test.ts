import { expect, test } from "vitest";
import { measureAll } from "../../bench/support/measure-all.ts";

test("a part of the benchmark that throws counts as failed, and the figures of the others are kept", async () => {
  const printed: string[] = [];
  const { figures, failed } = await measureAll(
    [
      ["one", async () => ({ figures: { rate: 1 }, text: "1 a second" })],
      ["two", () => Promise.reject(new Error("no room"))],
      ["three", async () => ({ figures: { rate: 3 }, text: "3 a second", failures: ["too slow"] })],
    ],
    (text) => printed.push(text),
  );
  expect(figures).toEqual({ one: { rate: 1 }, two: { failure: "no room" }, three: { rate: 3 } });
  expect(failed).toBe(2);
  expect(printed.join("\n")).toBe(
    "\none\n1 a second\n\ntwo\n  no figures\n  FAILED: no room\n\nthree\n3 a second\n  FAILED: too slow",
  );
});
