import { expect, test } from "vitest";
import { createConcurrencyLimit } from "../../../../shared/platform/lifecycle/concurrency-limit.ts";

test("a concurrency limit counts used slots, and freeing a slot twice frees it once", () => {
  const bound = createConcurrencyLimit({ max: 2, what: "things", code: "payment.unavailable" });
  const [leave] = [bound.enter(), bound.enter()];
  const refusal = expect.objectContaining({ code: "payment.unavailable", retryAfterMs: 2000 });
  expect(() => bound.enter()).toThrow(refusal);
  leave?.();
  leave?.();
  bound.enter();
  expect(() => bound.enter()).toThrow(refusal);
  expect(() => bound.enter()).toThrow("2 things are in flight");
});

test("one key gets its share of the slots, and other keys get the rest", () => {
  const bound = createConcurrencyLimit({
    max: 3,
    perKeyMax: 2,
    what: "things",
    code: "payment.unavailable",
  });
  const [leave] = [bound.enter("vera"), bound.enter("vera")];
  expect(() => bound.enter("vera")).toThrow("2 things of vera are in flight");
  bound.enter("otto");
  expect(() => bound.enter("otto")).toThrow("3 things are in flight");
  leave?.();
  leave?.();
  bound.enter("vera");
  expect(() => bound.enter("vera")).toThrow("2 things of vera are in flight");
});

test("without a key, no share applies, and all slots can be used", () => {
  const bound = createConcurrencyLimit({
    max: 2,
    perKeyMax: 1,
    what: "things",
    code: "payment.unavailable",
  });
  const leaves = [bound.enter(), bound.enter()];
  expect(() => bound.enter()).toThrow("2 things are in flight");
  leaves[0]?.();
  bound.enter("vera");
  leaves[1]?.();
  expect(() => bound.enter("vera")).toThrow("1 things of vera are in flight");
});
