import { expect, test } from "vitest";
import { z } from "zod";
import { limitsOfEndpoint, refusalsPerMinute } from "../../../shared/config/limit-fields.ts";

const endpoint = z.strictObject(limitsOfEndpoint);

test("an endpoint without limits has none, and keeps no bodies", () => {
  expect(endpoint.parse({})).toEqual({ keep_rejected_bodies: false });
});

test("a burst that is not given is what comes in a second, and at least one", () => {
  const rate_limit = { per_second: 2.5 };
  const rate_limit_per_address = { per_second: 0.01 };
  expect(endpoint.parse({ rate_limit, rate_limit_per_address })).toMatchObject({
    rate_limit: { perSecond: 2.5, burst: 3 },
    rate_limit_per_address: { perSecond: 0.01, burst: 1 },
  });
});

test.each([
  { per_second: 0 },
  { per_second: -1 },
  { per_second: 1e9 },
  { per_second: 1, burst: 0 },
  { per_second: 1, burst: 1.5 },
  { burst: 5 },
  { per_second: 1, per_minute: 2 },
  50,
])("a rate limit of %j is refused", (rate_limit) => {
  expect(endpoint.safeParse({ rate_limit }).success).toBe(false);
});

test("an address has 60 refusals a minute if nothing else is said, and at least one", () => {
  expect(refusalsPerMinute.parse(undefined)).toBe(60);
  expect(refusalsPerMinute.safeParse(0).success).toBe(false);
});
