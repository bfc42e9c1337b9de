import { createHmac } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { createCallRecords } from "../../shared/queue/call-record.ts";
import { createClaims } from "../../shared/queue/enqueue.ts";
import { keys } from "../../shared/redis/keys.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { send } from "../support/http.ts";

const SECRET = "a secret of the deduplicated";
const WINDOW_MS = 3_600_000;

const dedupes = {
  job_id: 1,
  idempotency_header: "X-GitHub-Delivery",
  idempotency_window_secs: WINDOW_MS / 1000,
};
const endpoints = [
  { ...dedupes, path: "/key", auth: "api-key", secret: SECRET },
  { ...dedupes, path: "/other-key", auth: "api-key", secret: SECRET },
  { ...dedupes, path: "/hmac", auth: "hmac-sha256", secret: SECRET },
  { ...dedupes, path: "/none", auth: "none" },
];

let redis: PrivateRedis;
let first: TestGateway;
let second: TestGateway;

beforeAll(async () => {
  redis = await startRedis({ env: process.env });
  first = await startGateway({ redisUrl: redis.url, webhooks: { endpoints } });
  second = await startGateway({ redisUrl: redis.url, webhooks: { endpoints } });
});
afterAll(async () => {
  await first.close();
  await second.close();
  await redis.stop();
});
beforeEach(async () => {
  await first.redis.flushdb();
});

function post(gateway: TestGateway, path: string, deliveryId: string | string[] | undefined, body = "x") {
  const ids = (Array.isArray(deliveryId) ? deliveryId : [deliveryId]).filter((id) => id !== undefined);
  const credential =
    path === "/hmac"
      ? ["X-Signature-256", createHmac("sha256", SECRET).update(body).digest("hex")]
      : ["X-API-Key", SECRET];
  return send(gateway.address, {
    path,
    headers: [...credential, ...ids.flatMap((id) => ["X-GitHub-Delivery", id])],
    body,
  });
}
const records = () => createCallRecords(first.redis);
const claims = () => createClaims(first.redis);

test.each(["/key", "/hmac", "/none"])("a delivery repeated to any replica is one call: %s", async (path) => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => post(i % 2 === 0 ? first : second, path, "d-1")),
  );
  expect(answers.map((answer) => answer.status)).toEqual(Array(20).fill(202));
  expect(new Set(answers.map((answer) => answer.json()["call_id"])).size).toBe(1);
  expect(await first.waiting()).toHaveLength(1);
  const again = await post(second, path, "d-1");
  expect(again.headers["idempotent-replayed"]).toBe("true");
  expect(again.json()).toMatchObject({ status: "accepted", job_id: 1 });
});

test("without the header, the same body twice is two calls", async () => {
  await post(first, "/key", undefined);
  await post(first, "/key", undefined);
  expect(await first.waiting()).toHaveLength(2);
});

test("the same id at another endpoint is another call", async () => {
  await post(first, "/key", "d-1");
  await post(first, "/other-key", "d-1");
  expect(await first.waiting()).toHaveLength(2);
});

test.each(["QUEUED", "INJECTED", "FAILED", "DISCARDED"])(
  "409: the same id with another body under api-key, when the call is %s",
  async (state) => {
    const id = String((await post(first, "/key", "d-1", "one")).json()["call_id"]);
    const of = { id, origin: "webhook" as const };
    if (state === "INJECTED") await records().injected(of, Date.now());
    if (state === "FAILED") await records().failed(of, Date.now());
    if (state === "DISCARDED") await records().discarded(of, Date.now());
    expect(await records().state(id)).toBe(state);
    const answer = await post(second, "/key", "d-1", "two");
    expect(answer.status).toBe(409);
    expect(answer.json()).toMatchObject({ code: "call.conflict" });
    expect(await first.waiting()).toHaveLength(1);
  },
);

test.each(["/hmac", "/none"])(
  "where the credential does not cover the header, an id cannot be taken from another body: %s",
  async (path) => {
    expect((await post(first, path, "d-1", "one")).status).toBe(202);
    expect((await post(first, path, "d-1", "two")).status).toBe(202);
    expect(await first.waiting()).toHaveLength(2);
  },
);

test("a stranger without the credential learns and claims nothing", async () => {
  const answer = await send(first.address, {
    path: "/key",
    headers: { "X-API-Key": "wrong", "X-GitHub-Delivery": "d-1" },
    body: "poison",
  });
  expect(answer.status).toBe(401);
  expect(await first.redis.keys(keys.record("*"))).toEqual([]);
  expect((await post(first, "/key", "d-1", "one")).headers["idempotent-replayed"]).toBeUndefined();
});

describe("a repeat is told what became of the call", () => {
  test.each([
    ["failed", "failed"],
    ["discarded", "discarded"],
    ["injected", "accepted"],
  ] as const)("%s: %s", async (end, status) => {
    const id = String((await post(first, "/key", "d-1")).json()["call_id"]);
    await first.queue.remove(id);
    await records()[end]({ id, origin: "webhook" }, Date.now());
    const answer = await post(second, "/key", "d-1");
    expect(answer.status).toBe(202);
    expect(answer.json()).toEqual({ status, job_id: 1, call_id: id });
    expect(answer.headers["idempotent-replayed"]).toBe("true");
    expect(await first.waiting()).toEqual([]);
  });
});

test("a repeat that finds a claim whose add was lost adds the call", async () => {
  const id = String((await post(first, "/key", "d-1")).json()["call_id"]);
  await first.queue.obliterate({ force: true });
  await first.redis.hset(keys.record(id), "st", "CLAIMED");
  const answer = await post(second, "/key", "d-1");
  expect(answer.json()).toMatchObject({ status: "accepted", call_id: id });
  expect((await first.waiting()).map((call) => call.id)).toEqual([id]);
  expect(await records().state(id)).toBe("QUEUED");
});

test("a claim lasts for the window, a queued or failed call for ever, and the window runs anew from the end", async () => {
  const ttl = (id: string) => first.redis.pttl(keys.record(id));
  const now = Date.now();
  await claims().claim("c_1", "hash", { windowMs: WINDOW_MS, now, by: "a test" });
  expect(await ttl("c_1")).toBeGreaterThan(WINDOW_MS - 5000);
  await claims().markQueued("c_1", now);
  expect(await ttl("c_1")).toBe(-1);
  await records().failed({ id: "c_1", origin: "webhook" }, now);
  expect(await ttl("c_1")).toBe(-1);
  await records().injected({ id: "c_1", origin: "webhook" }, now);
  expect(await ttl("c_1")).toBeGreaterThan(WINDOW_MS - 5000);
});

test("what is newer wins: a gateway's late mark does not hide that the call is failed", async () => {
  const of = { id: "c_1", origin: "webhook" as const };
  await claims().claim(of.id, "hash", { windowMs: WINDOW_MS, now: Date.now(), by: "a test" });
  await records().failed(of, Date.now());
  await claims().markQueued(of.id, Date.now());
  expect(await records().state(of.id)).toBe("FAILED");
});

test("what has ended stays ended: a worker that lost its call speaks too late", async () => {
  const of = { id: "c_1", origin: "webhook" as const };
  await claims().claim(of.id, "hash", { windowMs: WINDOW_MS, now: Date.now(), by: "a test" });
  await records().injected(of, Date.now());
  const attempt = { at: Date.now(), code: "runner.timed_out", reason: "late", worker: "w" };
  await records().attemptFailed(of, attempt, Date.now());
  await records().failed(of, Date.now());
  expect(await records().state(of.id)).toBe("INJECTED");
  expect(await first.redis.pttl(keys.record(of.id))).toBeGreaterThan(0);
  expect(await records().attempts(of.id)).toEqual([]);
  expect(await first.redis.zcard(keys.since("webhook"))).toBe(0);
});

test("a claim whose reply was lost is still one's own, and another's is not", async () => {
  const claim = (by: string) => claims().claim("c_1", "hash", { windowMs: WINDOW_MS, now: Date.now(), by });
  expect(await claim("one")).toEqual({ kind: "new" });
  expect(await claim("one")).toEqual({ kind: "new" });
  expect(await claim("other")).toEqual({ kind: "known", state: "CLAIMED" });
});

describe("400: a delivery id that cannot be used", () => {
  test.each([
    ["empty", ""],
    ["repeated", ["a", "b"]],
    ["repeated with the same value", ["a", "a"]],
    ["longer than 256 bytes", "x".repeat(257)],
  ])("%s", async (_what, deliveryId) => {
    const answer = await post(first, "/key", deliveryId);
    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({ code: "webhook.delivery_id_invalid" });
  });

  test("256 bytes are well", async () => {
    expect((await post(first, "/key", "x".repeat(256))).status).toBe(202);
  });
});
