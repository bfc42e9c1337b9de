import { gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createRejectedList } from "../../../shared/telemetry/rejected/list.ts";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";

const SECRET = "a secret that only the sender and we know";
const when = 'body.action in ["opened", "reopened"] && header["x-event"] == "issues"';
const filtered = {
  path: "/hooks/a",
  job_id: 1,
  auth: "bearer",
  secret: SECRET,
  delivery_id: "{header:X-Id}",
  when,
};
const endpoints = [
  filtered,
  { ...filtered, path: "/hooks/encoded", encoded_bodies: "decode" },
  {
    ...{ path: "/hooks/routed", auth: "none", when: "body.go" },
    route_by: { field: "/kind", jobs: { known: 2 }, unmatched: "refuse" },
  },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints });
});

type Sent = { path?: string; body?: string | Buffer; headers?: Record<string, string>; to?: string };

const deliver = ({
  path = filtered.path,
  body = '{"action":"opened"}',
  headers = {},
  to = gateway.address,
}: Sent) =>
  send(to, {
    path,
    headers: { Authorization: `Bearer ${SECRET}`, "X-Event": "issues", "X-Id": "1", ...headers },
    body,
  });

test("a request for which the filter is true becomes a call", async () => {
  expect((await deliver({})).json()).toMatchObject({ status: "accepted", job_id: 1 });
  expect((await webhooks.onlyCall()).job_id).toBe(1);
});

test("a request for which the filter is false is dropped and its sender gets a success, like an event without a job", async () => {
  for (const sent of [{ body: '{"action":"closed"}' }, { headers: { "X-Event": "push" } }]) {
    const answer = await deliver(sent);
    expect([answer.status, answer.text]).toEqual([202, '{"status":"dropped"}']);
    expect(gateway.log.events.at(-1)).toMatchObject({
      event: "webhook.dropped",
      fields: { path: filtered.path, by: "when" },
    });
  }
  expect(await webhooks.waiting()).toEqual([]);
});

test("if events without a job are refused with 404, so is a request for which the filter is false", async () => {
  const codeOf = async (body: string) => (await deliver({ path: "/hooks/routed", body })).json()["code"];
  expect(await codeOf('{"kind":"known","go":false}')).toBe("webhook.event_unrouted");
  expect(await codeOf('{"kind":"known"}')).toBe("webhook.filter_failed");
  expect(await codeOf('{"kind":"other"}')).toBe("webhook.event_unrouted");
  expect((await deliver({ path: "/hooks/routed", body: '{"kind":"known","go":true}' })).status).toBe(202);
});

test.each([
  ["lacks a member", "{}", "when: body.action is missing"],
  ["is not JSON", "action=opened", "when: the body is not JSON"],
])(
  "a body that %s gets 503, and the delivery is accepted once the filter is corrected",
  async (_what, body, reason) => {
    const refused = await deliver({ body });
    expect(refused.json()).toMatchObject({ status: 503, code: "webhook.filter_failed" });
    expect(refused.headers["retry-after"]).toBe("60");
    expect(refused.text).not.toContain("action");
    expect(gateway.log.events.at(-1)).toMatchObject({
      event: "webhook.refused",
      fields: { path: filtered.path, code: "webhook.filter_failed", reason },
    });
    const rejected = createRejectedList(webhooks.redis.partition);
    await eventually("it is listed", async () => {
      const [entry] = (await rejected.matching({ path: filtered.path }, 1)).newest;
      return entry?.code === "webhook.filter_failed" && entry.reason === reason;
    });
    expect(await webhooks.waiting()).toEqual([]);

    const { address } = await webhooks.start({
      endpoints: [{ ...filtered, when: 'header["x-event"] == "issues"' }],
    });
    const accepted = await deliver({ body, to: address });
    expect([accepted.status, accepted.headers["idempotent-replayed"]]).toEqual([202, undefined]);
    expect((await webhooks.onlyCall()).metadata["X-WEBHOOK-DELIVERY-ID"]).toBe("1");
  },
);

test("the filter reads the decoded body", async () => {
  const deliverEncoded = (body: string) =>
    deliver({ path: "/hooks/encoded", body: gzipSync(body), headers: { "Content-Encoding": "gzip" } });
  expect((await deliverEncoded('{"action":"opened"}')).json()).toMatchObject({ status: "accepted" });
  expect((await deliverEncoded('{"action":"closed"}')).json()).toEqual({ status: "dropped" });
});

test("a request without the credential does not reveal the filter", async () => {
  for (const body of ['{"action":"opened"}', '{"action":"closed"}', "{}"])
    expect((await deliver({ body, headers: { Authorization: "Bearer wrong" } })).status).toBe(401);
});
