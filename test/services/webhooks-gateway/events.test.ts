import { beforeAll, expect, test } from "vitest";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { send } from "../../support/http.ts";

const jobs = { push: 3, ping: 0 };
const open = { auth: "none" };
const endpoints = [
  { ...open, path: "/by-header", route_by: { header: "X-GitHub-Event", jobs } },
  { ...open, path: "/by-field", route_by: { field: "/event/type", jobs } },
  { ...open, path: "/by-number", route_by: { field: "/id", jobs: { "9007199254740993": 4, "100": 5 } } },
  { ...open, path: "/refuses", route_by: { header: "X-GitHub-Event", jobs, unmatched: "refuse" } },
  { ...open, path: "/204", answer: { status: 204 }, route_by: { header: "X-GitHub-Event", jobs } },
  { ...open, path: "/by-body", job_id: 1, event_type: "{body:/type}" },
  {
    ...open,
    path: "/topics",
    route_by: { header: "X-Topic", jobs: { "order.created\u2122": 6 } },
    forward_headers: ["X-Topic", "X-Shop"],
    event_type: "{header:X-Topic}",
    delivery_id: "{header:X-Topic}:{header:X-Id}",
  },
  {
    ...open,
    path: "/forwards",
    job_id: 1,
    forward_headers: ["X-GitHub-Event", "X-Custom"],
    forward_query: true,
    event_type: "{header:X-GitHub-Event}.{body:/action}",
    delivery_id: "{header:X-GitHub-Delivery}",
  },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints });
});

const post = (path: string, headers: readonly string[], body = "{}") =>
  send(gateway.address, { path, headers, body });

test.each([
  ["a header", "/by-header", ["X-GitHub-Event", "push"], "{}", 3],
  ["a header, for the job with the index 0", "/by-header", ["X-GitHub-Event", "ping"], "{}", 0],
  ["a field of the body", "/by-field", [], '{"event":{"type":"push"}}', 3],
  ["a number that a double cannot hold", "/by-number", [], '{"id":9007199254740993}', 4],
  ["a number with an exponent", "/by-number", [], '{"id":1e2}', 5],
])("the job of a webhook is chosen by %s", async (_what, path, headers, body, job) => {
  const answer = await post(path, headers, body);
  expect(answer.json()).toMatchObject({ status: "accepted", job_id: job });
  expect((await webhooks.onlyCall()).job_id).toBe(job);
});

const unmatched: [string, string, string[], string][] = [
  ["another event", "/by-header", ["X-GitHub-Event", "issues"], "{}"],
  ["no event", "/by-header", [], "{}"],
  ["a repeated event header", "/by-header", ["X-GitHub-Event", "push", "X-GitHub-Event", "push"], "{}"],
  ["an inherited property name", "/by-header", ["X-GitHub-Event", "constructor"], "{}"],
  ["a body that is not JSON", "/by-field", [], "push"],
  ["a number next to that of a job", "/by-number", [], '{"id":9007199254740992}'],
  ["a large number with a point", "/by-number", [], '{"id":9007199254740993.0}'],
  ["a field that is not text", "/by-field", [], '{"event":{"type":["push"]}}'],
];
test.each(unmatched)(
  "a webhook with %s is dropped, and its sender gets a success",
  async (_what, path, headers, body) => {
    const answer = await post(path, headers, body);
    expect([answer.status, answer.text]).toEqual([202, '{"status":"dropped"}']);
    expect(gateway.log.events.at(-1)).toMatchObject({ event: "webhook.dropped", fields: { path } });
    expect(await webhooks.waiting()).toEqual([]);
  },
);

test("an event without a job is refused with 404 if the endpoint is configured so", async () => {
  expect((await post("/refuses", ["X-GitHub-Event", "issues"])).json()).toMatchObject({
    status: 404,
    code: "webhook.event_unrouted",
  });
  expect((await post("/204", ["X-GitHub-Event", "issues"])).status).toBe(204);
});

test("the runner receives the forwarded headers, the query, the delivery id and the event type", async () => {
  const headers = ["x-github-event", "issues", "X-GitHub-Delivery", "d-1", "X-Other", "not forwarded"];
  await post("/forwards?a=1&b=%20", headers, '{"action":"opened"}');
  const { metadata } = await webhooks.onlyCall();
  expect(metadata).toMatchObject({
    "X-GitHub-Event": "issues",
    "X-WEBHOOK-FORWARDED": "X-GitHub-Event",
    "X-WEBHOOK-EVENT": "issues.opened",
    "X-WEBHOOK-DELIVERY-ID": "d-1",
    "X-WEBHOOK-QUERY": "a=1&b=%20",
  });
  expect(Object.keys(metadata)).not.toContain("X-Other");
});

test.each([
  ["a letter beyond ASCII", "order.created\u2122", "UTF-8''order.created%E2%84%A2"],
  ["half a surrogate pair", "a\ud800", "UTF-8''a%EF%BF%BD"],
  ["a line break followed by a header", "a\r\nX-X402-PAYER: 0x1", "UTF-8''a%0D%0AX-X402-PAYER%3A%200x1"],
  ["a trailing space and special characters", "a*('%') ", "UTF-8''a%2A%28%27%25%27%29%20"],
])(
  "an event type that has %s reaches the runner encoded, and in no other header",
  async (_what, type, sent) => {
    expect((await post("/by-body", [], JSON.stringify({ type }))).status).toBe(202);
    const { metadata } = await webhooks.onlyCall();
    expect(metadata).toMatchObject({ "X-WEBHOOK-EVENT-UTF8": sent });
    expect(metadata).not.toHaveProperty("X-WEBHOOK-EVENT");
  },
);

test("an event in a header is read as sent by route_by, in the delivery id, and by the runner", async () => {
  const asSent = Buffer.from("order.created\u2122").toString("latin1");
  const headers = ["X-Topic", asSent, "X-Id", "7", "X-Shop", "a"];
  expect((await post("/topics", headers)).json()).toMatchObject({ status: "accepted", job_id: 6 });
  expect((await post("/topics", headers)).headers["idempotent-replayed"]).toBe("true");
  const { metadata } = await webhooks.onlyCall();
  expect(metadata).toMatchObject({
    "X-WEBHOOK-EVENT-UTF8": "UTF-8''order.created%E2%84%A2",
    "X-WEBHOOK-DELIVERY-ID": sha256Hex(Buffer.from("order.created\u2122:7")),
    "X-WEBHOOK-FORWARDED": "X-Shop",
  });
  expect(metadata).not.toHaveProperty("X-Topic");
});

test.each([
  ["twice", ["X-Topic", "order.created\u00e2", "X-Topic", "order.created\u00e2"]],
  ["in other bytes", ["X-Topic", "order.created\u0099"]],
])("an event whose header is sent %s has no job", async (_what, headers) => {
  expect((await post("/topics", headers)).text).toBe('{"status":"dropped"}');
});

test.each([
  ["a repeated event header", ["X-GitHub-Event", "caf\u00e9", "X-GitHub-Event", "caf\u00e9"], "{}"],
  ["a type of 1,026 bytes", ["X-GitHub-Event", "a"], JSON.stringify({ action: "\u00e9".repeat(512) })],
])("a webhook with %s is refused with 400", async (_what, headers, body) => {
  const answer = (await post("/forwards", headers, body)).json();
  expect(answer).toMatchObject({ status: 400, code: "webhook.metadata_invalid" });
  expect(await webhooks.waiting()).toEqual([]);
});

test("values that the sender omits or leaves empty are not forwarded", async () => {
  await post("/forwards?", ["X-Custom", ""]);
  const { metadata } = await webhooks.onlyCall();
  expect(Object.keys(metadata).filter((key) => /CUSTOM|FORWARDED|QUERY|EVENT|DELIVERY/i.test(key))).toEqual(
    [],
  );
});

const unusable: [string, string, string[]][] = [
  ["a forwarded header of 1,025 bytes", "/forwards", ["X-Custom", "x".repeat(1025)]],
  ["a forwarded header beyond ASCII", "/forwards", ["X-Custom", "caf\u00e9"]],
  ["a forwarded header with a tab", "/forwards", ["X-Custom", "a\tb"]],
  ["a repeated forwarded header", "/forwards", ["X-Custom", "a", "X-Custom", "a"]],
  ["a query of 4,097 bytes", `/forwards?${"q".repeat(4097)}`, []],
];
test.each(unusable)("a webhook with %s is refused with 400", async (_what, path, headers) => {
  expect((await post(path, headers)).json()).toMatchObject({ status: 400, code: "webhook.metadata_invalid" });
  expect(await webhooks.waiting()).toEqual([]);
});

test("a delivery id with characters beyond ASCII is refused with 400", async () => {
  expect((await post("/forwards", ["X-GitHub-Delivery", "\u00e9"])).json()).toMatchObject({
    status: 400,
    code: "webhook.delivery_id_invalid",
  });
});
