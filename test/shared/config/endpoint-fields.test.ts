import { expect, test } from "vitest";
import { endpoint } from "../../../shared/config/endpoint-toml.ts";
import { webhooksToml } from "../../../shared/config/webhooks-toml.ts";

const open = { path: "/a", job_id: 1, auth: "none" };
const parse = (limits: object) => endpoint({ env: {} }).safeParse({ ...open, ...limits });

test("an endpoint without limits has none, and keeps no bodies", () => {
  const { data } = parse({});
  expect(data).toMatchObject({ keep_rejected_bodies: false });
  expect(data).not.toHaveProperty("rate_limit");
  expect(data).not.toHaveProperty("rate_limit_per_address");
});

test("the default burst is the number of requests in a second, and at least one", () => {
  const rate_limit = { per_second: 2.5 };
  const rate_limit_per_address = { per_second: 0.01 };
  expect(parse({ rate_limit, rate_limit_per_address }).data).toMatchObject({
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
  expect(parse({ rate_limit }).success).toBe(false);
});

test("by default one address may have 60 refusals a minute, and the limit is at least one", () => {
  const file = (keys: object) => webhooksToml({ env: {} }).safeParse({ endpoints: [open], ...keys });
  expect(file({}).data?.refusals_per_minute).toBe(60);
  expect(file({ refusals_per_minute: 0 }).success).toBe(false);
});
