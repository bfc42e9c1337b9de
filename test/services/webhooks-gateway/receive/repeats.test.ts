import { beforeAll, expect, test } from "vitest";
import { sha256Hex } from "../../../../shared/platform/crypto/compare.ts";
import { createCallRecords, createFailedRecords } from "../../../../shared/queue/call-record.ts";
import { keys } from "../../../fixtures/redis.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { markInjected } from "../../../support/mark-injected.ts";
import { SECRET, sign, utf8 } from "./credentials.ts";

const dedupes = { job_id: 1, idempotency_header: "X-GitHub-Delivery", idempotency_window_secs: 3600 };
const endpoints = [
  { ...dedupes, path: "/key", auth: "api-key", secret: SECRET },
  { ...dedupes, path: "/other-key", auth: "api-key", secret: SECRET },
  { ...dedupes, path: "/hmac", auth: "hmac-sha256", secret: SECRET },
  { ...dedupes, path: "/none", auth: "none" },
  { job_id: 1, path: "/by-field", auth: "none", delivery_id: "{body:/a}:{body:/b}" },
  { job_id: 1, path: "/by-list", auth: "none", delivery_id: "{body:/*/id}" },
];

const webhooks = useWebhooks();
let first: TestWebhooks;
let second: TestWebhooks;

beforeAll(async () => {
  first = await webhooks.start({ endpoints });
  second = await webhooks.start({ endpoints });
});

function post({ address }: TestWebhooks, path: string, deliveryId: string | undefined, body = "x") {
  const credential = path === "/hmac" ? ["X-Signature-256", sign(body)] : ["X-API-Key", utf8(SECRET)];
  const delivery = deliveryId === undefined ? [] : ["X-GitHub-Delivery", deliveryId];
  return send(address, { path, headers: [...credential, ...delivery], body });
}
const idOf = async (answer: ReturnType<typeof post>) => String((await answer).json()["call_id"]);
const records = () => createCallRecords(webhooks.redis.partition);

test.each([
  ["an API key", "/key"],
  ["a signature", "/hmac"],
  ["no credential", "/none"],
])("a delivery with %s that is repeated to any replica is one call", async (_what, path) => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => post(i % 2 === 0 ? first : second, path, "d-1")),
  );
  expect(answers.map((answer) => answer.status)).toEqual(Array(20).fill(202));
  expect(new Set(answers.map((answer) => answer.json()["call_id"])).size).toBe(1);
  expect(await webhooks.waiting()).toHaveLength(1);
  const again = await post(second, path, "d-1");
  expect(again.headers["idempotent-replayed"]).toBe("true");
  expect(again.json()).toMatchObject({ status: "accepted", job_id: 1 });
});

test.each([
  ["not visible ASCII", "Überweisung"],
  ["longer than the limit", "x".repeat(300)],
])("a delivery id of body fields that is %s is replaced by its SHA-256", async (_what, text) => {
  const body = JSON.stringify({ a: "1", b: text });
  await post(first, "/by-field", undefined, body);
  const again = await post(second, "/by-field", undefined, body);
  expect(again.headers["idempotent-replayed"]).toBe("true");
  const { metadata } = await webhooks.onlyCall();
  expect(metadata["X-WEBHOOK-DELIVERY-ID"]).toBe(sha256Hex(Buffer.from(`1:${text}`)));
});

test("numbers that a double cannot distinguish are different ids", async () => {
  const deliver = (id: string) => post(first, "/by-list", undefined, `[{"id":${id}},{"id":7}]`);
  const ids = ["9007199254740992", "9007199254740993", "-9007199254740993", "1e2"];
  for (const id of ids) expect((await deliver(id)).headers["idempotent-replayed"]).toBeUndefined();
  for (const id of ids) expect((await deliver(id)).headers["idempotent-replayed"]).toBe("true");
  const calls = await webhooks.waiting();
  expect(calls.map(({ metadata }) => metadata["X-WEBHOOK-DELIVERY-ID"]).sort()).toEqual(
    ["9007199254740992,7", "9007199254740993,7", "-9007199254740993,7", "100,7"].sort(),
  );
});

test("if an object has the same id member several times, the last one counts", async () => {
  await post(first, "/by-list", undefined, '[{"id":9007199254740993,"id":9007199254740995}]');
  expect((await webhooks.onlyCall()).metadata["X-WEBHOOK-DELIVERY-ID"]).toBe("9007199254740995");
});

test.each([
  [
    "a large number with a point",
    '[{"id":12345678901234567890.5}]',
    " (a large number with a point or an exponent)",
  ],
  ["a large number with an exponent", '[{"id":1e300}]', " (a large number with a point or an exponent)"],
  ["a number with a point", '[{"id":1.5}]', ""],
  ["no id in one element", '[{"id":1},{}]', ""],
])("the log says of a call that it has no id, since there is %s", async (_what, body, why) => {
  await post(first, "/by-list", undefined, body);
  await post(first, "/by-list", undefined, body);
  expect(await webhooks.waiting()).toHaveLength(2);
  expect(first.log.events.at(-1)).toMatchObject({
    event: "webhook.accepted",
    fields: { noId: `field /*/id${why}` },
  });
});

test("the same body twice without a delivery id is two calls", async () => {
  await post(first, "/key", undefined);
  await post(first, "/key", undefined);
  expect(await webhooks.waiting()).toHaveLength(2);
});

test("the same delivery id at another endpoint is another call", async () => {
  await post(first, "/key", "d-1");
  await post(first, "/other-key", "d-1");
  expect(await webhooks.waiting()).toHaveLength(2);
});

test.each([
  ["a signature", "/hmac"],
  ["no credential", "/none"],
])(
  "with %s, which does not cover the delivery id, another body under the same id is another call",
  async (_, path) => {
    expect((await post(first, path, "d-1", "one")).status).toBe(202);
    expect((await post(first, path, "d-1", "two")).status).toBe(202);
    expect(await webhooks.waiting()).toHaveLength(2);
  },
);

test("a stranger without the credential cannot use up a delivery id", async () => {
  const answer = await send(first.address, {
    path: "/key",
    headers: { "X-API-Key": "wrong", "X-GitHub-Delivery": "d-1" },
    body: "poison",
  });
  expect(answer.status).toBe(401);
  expect(await webhooks.redis.client.keys(keys.record("*"))).toEqual([]);
  expect((await post(first, "/key", "d-1", "one")).headers["idempotent-replayed"]).toBeUndefined();
});

test.each([
  ["failed", "failed"],
  ["discarded", "discarded"],
  ["injected", "accepted"],
] as const)(
  "the repeat of a delivery whose call was %s is answered with the state %s",
  async (end, status) => {
    const id = await idOf(post(first, "/key", "d-1"));
    await webhooks.queues.remove(id);
    const of = { id, queue: "webhook/7/1" };
    const { partition } = webhooks.redis;
    if (end === "injected") await markInjected(partition, of);
    if (end === "failed") await records().failed(of, Date.now());
    if (end === "discarded") await createFailedRecords(partition).endDiscard(of, Date.now());
    const answer = await post(second, "/key", "d-1");
    expect(answer.status).toBe(202);
    expect(answer.json()).toEqual({ status, job_id: 1, call_id: id });
    expect(answer.headers["idempotent-replayed"]).toBe("true");
    expect(await webhooks.waiting()).toEqual([]);
  },
);

test("a repeat of a call whose record has an unknown state is refused with 503 at once, and the record stays unchanged", async () => {
  const id = await idOf(post(first, "/key", "d-1"));
  await webhooks.redis.client.hset(keys.record(id), { st: "LATER" });
  const before = await webhooks.redis.client.hgetall(keys.record(id));
  const startedAt = performance.now();
  expect((await post(second, "/key", "d-1")).json()).toMatchObject({
    status: 503,
    code: "record.unreadable",
  });
  expect(performance.now() - startedAt).toBeLessThan(1000);
  expect(await webhooks.redis.client.hgetall(keys.record(id))).toEqual(before);
});
