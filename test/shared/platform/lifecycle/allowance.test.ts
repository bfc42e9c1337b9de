import { expect, test } from "vitest";
import { createAllowance } from "../../../../shared/platform/lifecycle/allowance.ts";

test("each key has a budget that refills within a minute, and unused units can be refunded", () => {
  let now = 0;
  const allowance = createAllowance({
    ...{ perMinute: 6, what: "verifies", publicDetail: "too many" },
    clock: () => now,
  });
  const use = (party: string) => allowance.use(party);
  const uses = [1, 2, 3, 4, 5, 6].map(() => use("a"));
  expect(() => use("a")).toThrow(
    expect.objectContaining({ code: "request.rate_limited", retryAfterMs: 10_000 }),
  );
  use("b");
  now = 9999;
  expect(() => use("a")).toThrow();
  now = 10_000;
  use("a");
  uses[0]?.();
  uses[0]?.();
  use("a");
  expect(() => use("a")).toThrow();
  now = 1_000_000;
  for (let each = 0; each < 6; each++) use("a");
  expect(() => use("a")).toThrow();
});
