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
  { ...bearer, path: "/probed", answer: { refusals_limited: 401 } },
  { path: "/meta", job_id: 1, preset: "meta", secret: SECRET, verify_token: "a token of twenty chars" },
];

const webhooks = useWebhooks();
let first: TestWebhooks;
let second: TestWebhooks;

beforeAll(async () => {
  first = await webhooks.start({ endpoints });
  second = await webhooks.start({ endpoints });
});

/** A gateway whose addresses may have three refused credentials. It remembers those that had more. */
const startStrict = () => webhooks.start({ endpoints, webhooks: { refusals_per_minute: 3 } });

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

const fieldsOf = ({ log }: TestWebhooks, event: string) =>
  log.events.filter((each) => each.event === event).map(({ fields }) => fields);

/** What is told of the refusals over the limit. */
const toldBy = (gateway: TestWebhooks) =>
  eventually("it is told", () => fieldsOf(gateway, "webhook.refusals_limited")[0]);

test("an address with too many refused credentials gets 429 for them, and is served as ever if its credential holds", async () => {
  const strict = await startStrict();
  const statuses: number[] = [];
  for (let i = 0; i < 5; i += 1) statuses.push((await post(strict, "/unlimited", BAD)).status);
  expect(statuses).toEqual([401, 401, 401, 429, 429]);
  expect((await post(strict, "/unlimited")).status).toBe(202);
  const answer = await post(strict, "/unlimited", BAD);
  expect(answer.json()["detail"]).toBe("too many wrong credentials from this address");
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect(fieldsOf(strict, "webhook.refused")).toHaveLength(3);
  const list = createRejectedList(webhooks.redis.partition);
  await eventually("recorded", async () => (await list.matching({}, 10)).newest.length === 3);
  expect(await toldBy(strict)).toEqual({
    path: "/unlimited",
    code: "request.rate_limited",
    reason: "too many wrong credentials from this address",
    times: 3,
  });
});

test("a sender that tries an endpoint with wrong credentials gets 401 for all of them, and those over the limit are only counted", async () => {
  const strict = await startStrict();
  for (let i = 0; i < 5; i += 1) {
    const answer = await post(strict, "/probed", BAD);
    expect(answer.json()).toMatchObject({ status: 401, code: "webhook.credential_rejected" });
    expect(answer.headers["www-authenticate"]).toBe('Bearer realm="postern"');
  }
  expect(fieldsOf(strict, "webhook.refused")).toHaveLength(3);
  expect(await toldBy(strict)).toMatchObject({ code: "webhook.credential_rejected", times: 2 });
});

test("a wrong verify token counts as a wrong credential of its address", async () => {
  const strict = await startStrict();
  const path = "/meta?hub.mode=subscribe&hub.challenge=1&hub.verify_token=guess";
  const statuses: number[] = [];
  for (let i = 0; i < 5; i += 1) statuses.push((await send(strict.address, { method: "GET", path })).status);
  expect(statuses).toEqual([403, 403, 403, 429, 429]);
  expect((await post(strict, "/unlimited", BAD)).status).toBe(429);
});
