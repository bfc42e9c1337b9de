import { beforeEach, expect, test } from "vitest";
import { createEnqueue, type Enqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { createCallRecords } from "../../../shared/queue/call-record.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { markInjected } from "../../support/mark-injected.ts";

const WINDOW_MS = 3_600_000;
const OF = { id: "c_1", queue: "webhook/7/1", take: 1 };

const redis = useRedis();
let records: ReturnType<typeof createCallRecords>;
let enqueue: Enqueue;

beforeEach(async () => {
  await redis.client.flushdb();
  records = createCallRecords(partitionOf(redis.client));
  enqueue = createEnqueue(partitionOf(redis.client));
});

const add = (by = "a test", bodySha256 = "hash") =>
  enqueue(aCall({ id: OF.id }), { bodySha256, windowMs: WINDOW_MS, by });

const ATTEMPT = { at: 1, code: "runner.failed", reason: `no, "never"`, worker: "w" };

test("a queued or failed call is remembered forever, and an ended call for its window", async () => {
  const ttl = () => redis.client.pttl(keys.record(OF.id));
  await add();
  expect(await ttl()).toBe(-1);
  await records.failed(OF, Date.now());
  expect(await ttl()).toBe(-1);
  await markInjected(partitionOf(redis.client), OF);
  expect(await ttl()).toBeGreaterThan(WINDOW_MS - 5000);
});

test("a write of a worker that lost its call does not reopen an ended call", async () => {
  await add();
  await markInjected(partitionOf(redis.client), OF);
  const attempt = { at: Date.now(), code: "runner.timed_out", reason: "late", worker: "w" };
  await records.attemptFailed(OF, attempt, Date.now());
  await records.failed(OF, Date.now());
  expect(await records.state(OF.id)).toBe("INJECTED");
  expect(await redis.client.pttl(keys.record(OF.id))).toBeGreaterThan(0);
  expect(await records.attempts(OF.id)).toEqual([]);
  expect(await redis.client.zcard(keys.since("webhook/7/1"))).toBe(0);
});

test("an add whose reply was lost is new to its own request, known to another request, and a conflict with another body", async () => {
  expect(await add("one")).toEqual({ kind: "new" });
  expect(await add("one")).toEqual({ kind: "new" });
  expect(await add("other")).toEqual({ kind: "known", state: "QUEUED", job: "7/1" });
  expect(await add("other", "another hash")).toEqual({ kind: "conflict" });
});

test("the newest five failed attempts of a call are kept, each with its number", async () => {
  await add();
  for (let take = 1; take <= 12; take++) await records.attemptFailed({ ...OF, take }, ATTEMPT, Date.now());
  expect((await records.attempts(OF.id)).map(({ n }) => n)).toEqual([8, 9, 10, 11, 12]);
  expect(await redis.client.llen(keys.attempts(OF.id))).toBe(5);
  expect((await records.attempts(OF.id))[4]).toMatchObject({
    code: "runner.failed",
    reason: `no, "never"`,
  });
});

test("a write of a worker about a call with neither a record nor a job stores nothing", async () => {
  const writeLate = async () => {
    await records.attemptFailed(OF, ATTEMPT, 1);
    await records.unsure({ ...OF, take: 2 });
  };
  await enqueue(aCall({ id: OF.id }));
  await writeLate();
  expect(await redis.client.llen(keys.attempts(OF.id)), "there is a job").toBe(2);
  await redis.client.flushdb();
  await writeLate();
  expect(await redis.client.keys("*")).toEqual([]);
});
