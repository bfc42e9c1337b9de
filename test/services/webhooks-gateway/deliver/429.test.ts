import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createRejectedList } from "../../../../shared/rejected/list.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { SECRET, utf8 } from "./credentials.ts";

const bearer = { job_id: 1, auth: "bearer", secret: SECRET };
const endpoints = [
  { ...bearer, path: "/limited", rate_limit: { per_second: 0.01, burst: 2 } },
  { ...bearer, path: "/per-address", rate_limit_per_address: { per_second: 0.01, burst: 2 } },
  {
    ...bearer,
    path: "/comes-again-on-503",
    rate_limit: { per_second: 0.01, burst: 1 },
    answer: { limited: 503 },
  },
  { ...bearer, path: "/guessed-at", rate_limit: { per_second: 0.01, burst: 2 } },
  { ...bearer, path: "/unlimited" },
];

const webhooks = useWebhooks();
let first: TestWebhooks;
let second: TestWebhooks;
let strict: TestWebhooks;

beforeAll(async () => {
  first = await webhooks.start({ endpoints });
  second = await webhooks.start({ endpoints });
  strict = await webhooks.start({ endpoints, webhooks: { refusals_per_minute: 3 } });
});

const GOOD = ["Authorization", utf8(`Bearer ${SECRET}`)];
const BAD = ["Authorization", "Bearer wrong"];
const post = ({ address }: TestWebhooks, path: string, headers = GOOD) =>
  send(address, { path, headers, body: "x" });

test.each(["/limited", "/per-address"])(
  "webhooks to %s over its limit are refused with 429 by every replica, and say when to come again",
  async (path) => {
    expect((await post(first, path)).status).toBe(202);
    expect((await post(second, path)).status).toBe(202);
    const answer = await post(first, path);
    expect(answer.json()).toMatchObject({ status: 429, code: "request.rate_limited" });
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(1);
    expect(await webhooks.waiting()).toHaveLength(2);
  },
);

test("over its limit an endpoint answers what makes its sender come again", async () => {
  expect((await post(first, "/comes-again-on-503")).status).toBe(202);
  const answer = await post(first, "/comes-again-on-503");
  expect(answer.status).toBe(503);
  expect(answer.json()).toMatchObject({ status: 503, code: "request.rate_limited" });
  expect(answer.headers["retry-after"]).toBeDefined();
});

test("webhooks with a wrong credential use up no limit of the endpoint", async () => {
  for (let i = 0; i < 5; i += 1) expect((await post(first, "/guessed-at", BAD)).status).toBe(401);
  expect((await post(first, "/guessed-at")).status).toBe(202);
});

test("an address with too many refused credentials gets 429 for them, and is served as ever if its credential holds", async () => {
  const statuses: number[] = [];
  for (let i = 0; i < 5; i += 1) statuses.push((await post(strict, "/unlimited", BAD)).status);
  expect(statuses).toEqual([401, 401, 401, 429, 429]);
  expect((await post(strict, "/unlimited")).status).toBe(202);
  expect(strict.log.events.filter(({ event }) => event === "webhook.refused")).toHaveLength(3);
  const list = createRejectedList(webhooks.redis.client);
  await eventually("recorded", async () => (await list.matching({}, 10)).newest.length === 3);
});
