import { expect, test } from "vitest";
import { createConcurrencyLimit } from "../../../../shared/platform/lifecycle/concurrency-limit.ts";

test("a concurrency limit counts who is inside, and who leaves twice has left once", () => {
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

test("one party has its share of the places, and the others have the rest", () => {
  const bound = createConcurrencyLimit({
    max: 3,
    perPartyMax: 2,
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

test("who enters for no party has no share, but all places", () => {
  const bound = createConcurrencyLimit({
    max: 2,
    perPartyMax: 1,
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
