import { expect, test } from "vitest";
import { createConcurrencyLimit } from "../../../shared/lifecycle/concurrency-limit.ts";

test("a concurrency limit counts who is inside, and who leaves twice has left once", () => {
  const bound = createConcurrencyLimit({ max: 2, what: "things", code: "payment.unavailable" });
  const [leave] = [bound.enter(), bound.enter()];
  const refusal = expect.objectContaining({ code: "payment.unavailable", retryAfterMs: 2000 });
  expect(() => bound.enter()).toThrow(refusal);
  leave?.();
  leave?.();
  bound.enter();
  expect(() => bound.enter()).toThrow(refusal);
});
