import { beforeEach, describe, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { randomCallId } from "../../../../shared/call/call-id.ts";
import type { ResultLimits } from "../../../../shared/call/results/result.ts";
import { createResults, createStoreProgress } from "../../../../shared/call/results/store.ts";
import {
  createDeliverResult,
  type DeliverResult,
  type Delivery,
} from "../../../../shared/call-search/deliver-result.ts";
import { createCallRecords } from "../../../../shared/queue/call-record.ts";
import { partitionOf } from "../../../../shared/redis/partition.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { markInjected } from "../../../support/mark-injected.ts";

const redis = useRedis();
beforeEach(() => redis.client.flushdb());

const LIMITS: ResultLimits = { resultMs: 60_000, resultBytesMax: 1000, bytesMax: 10_000 };
const open = () => createResults(redis.partition);
const storeProgress: ReturnType<typeof createStoreProgress> = (id, progress) =>
  createStoreProgress(redis.partition, LIMITS)(id, progress);
const deliver: DeliverResult = (id, result) => createDeliverResult(redis.partition, LIMITS)(id, result);

function answer(body: string, fields: { status?: number; at?: number } = {}): Delivery {
  const { status = 200, at = 1 } = fields;
  return { kind: "answer", status, contentType: "text/plain", body: Buffer.from(body), at, by: "delivery" };
}

/** Writes a record as gateways and producers of this release write it. */
async function aRecord(fields: Record<string, string>): Promise<string> {
  const id = randomCallId();
  await redis.client.hset(keys.record(id), { at: "5", ...fields });
  return id;
}

/** The counted bytes of all results, and the bytes that the index of the results adds up to. */
async function bytes(): Promise<[counted: number, indexed: number]> {
  const entries = await redis.client.zrange(keys.results, "0", "-1");
  const indexed = entries.reduce((sum, entry) => sum + Number(entry.split(" ")[0]), 0);
  return [Number(await redis.client.get(keys.resultsBytes)), indexed];
}

describe("the result of a call", () => {
  test.each([
    [{ st: "QUEUED" }, { kind: "pending", state: "QUEUED", changedAt: 5, progress: undefined }],
    [{ st: "SETTLING" }, { kind: "pending", state: "SETTLING" }],
    [{ st: "QUEUED", fc: "runner.failed" }, { kind: "pending" }],
    [
      { st: "INJECTED", rs: "awaited" },
      { kind: "pending", state: "INJECTED" },
    ],
    [{ st: "INJECTED", rs: "kept" }, { kind: "gone" }],
    [{ st: "INJECTED", rs: "gone" }, { kind: "gone" }],
    [{ st: "INJECTED", rs: "delivered" }, { kind: "gone" }],
    [{ st: "INJECTED" }, { kind: "none kept" }],
    [{ st: "VOID" }, { kind: "none kept" }],
    [{ st: "FAILED" }, { kind: "none kept" }],
    [
      { st: "FAILED", fc: "runner.refused" },
      { kind: "failed", code: "runner.refused", at: 5 },
    ],
    [
      { st: "FAILED", fc: "runner.refused", fp: '{"title":"a"}' },
      { kind: "failed", title: "a" },
    ],
    [{ st: "FAILED", fc: "runner.refused", rs: "delivered" }, { kind: "gone" }],
    [
      { st: "DISCARDED", fc: "runner.refused", rs: "gone" },
      { kind: "failed", code: "runner.refused" },
    ],
    [{ st: "DISCARDED", rs: "gone" }, { kind: "gone" }],
    [
      { st: "REFUNDED", fc: "runner.refused" },
      { kind: "failed", code: "runner.refused" },
    ],
  ])("whose record says %o and of which nothing is stored, is %o", async (record, expected) => {
    expect(await open().read(await aRecord(record))).toMatchObject(expected);
  });

  test("is gone if the call was forgotten, even if a result was stored since", async () => {
    const id = await aRecord({ st: "INJECTED", rs: "kept" });
    await deliver(id, answer("late"));
    expect(await open().read(id)).toMatchObject({ kind: "answer" });
    await redis.client.hset(keys.record(id), "fg", "6");
    expect(await open().read(id)).toEqual({ kind: "gone" });
    expect((await open().status(id))?.result).toEqual({ kind: "gone" });
  });

  test("is unknown without a record", async () => {
    expect(await open().read(randomCallId())).toEqual({ kind: "unknown" });
  });

  test("is refused if the record has a state that no process writes", async () => {
    const id = await aRecord({ st: "LATER" });
    await expect(open().read(id)).rejects.toMatchObject({ code: "record.unreadable" });
    await expect(open().status(id)).rejects.toMatchObject({ code: "record.unreadable" });
    await expect(open().state(id)).rejects.toMatchObject({ code: "record.unreadable" });
  });

  test("is unreadable if foreign data is under its key", async () => {
    const id = await aRecord({ st: "INJECTED" });
    for (const stored of ["", "text", "{}\nbody", "null\n", '{"kind":"other"}\n']) {
      await redis.client.set(keys.result(id), stored);
      await expect(open().read(id)).rejects.toMatchObject({ code: "record.unreadable" });
    }
  });

  test("is read in one partition only", async () => {
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    await deliver(id, answer("of this one"));
    const other = partitionOf(redis.client, "{other}");
    expect(await createResults(other).read(id)).toEqual({ kind: "unknown" });
    await createDeliverResult(other, LIMITS)(id, answer("of the other"));
    expect(await open().read(id)).toMatchObject({ body: Buffer.from("of this one") });
    expect((await redis.client.keys("{other}*")).sort()).toEqual(
      [`{other}:result:${id}`, "{other}:results", "{other}:results:bytes"].sort(),
    );
  });
});

describe("a call that keeps its result, and that a producer of the previous release has ended", () => {
  const queue = "webhook/7/1";

  test("has no result after a success, unless one is delivered", async () => {
    const id = await aRecord({ st: "QUEUED" });
    await markInjected(redis.partition, { id, queue });
    expect(await open().read(id)).toEqual({ kind: "none kept" });
    expect(await deliver(id, answer("later"))).toBe("stored");
    expect(await open().read(id)).toMatchObject({ kind: "answer" });
  });

  test("has no result after a failure", async () => {
    const id = await aRecord({ st: "QUEUED" });
    await createCallRecords(redis.partition).failed({ id, queue }, 1);
    expect(await open().read(id)).toEqual({ kind: "none kept" });
  });

  test("has neither a result nor a reason after a success that followed a failure of this release", async () => {
    const id = await aRecord({ st: "QUEUED", fc: "runner.failed" });
    await markInjected(redis.partition, { id, queue });
    expect(await open().read(id)).toEqual({ kind: "none kept" });
  });
});

describe("a delivery", () => {
  test("becomes the result, whatever bytes it has", async () => {
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    const body = Buffer.from([0, 10, 255, 13, 10, 128]);
    expect(await deliver(id, { ...answer(""), body } as Delivery)).toBe("stored");
    expect(await open().read(id)).toEqual({ ...answer(""), body });
  });

  test("may be a failure with a title and a detail", async () => {
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    const failure = {
      kind: "failure",
      status: 500,
      contentType: undefined,
      title: "No",
      detail: "ü",
      at: 3,
      by: "delivery",
    } as const;
    await deliver(id, failure);
    expect(await open().read(id)).toEqual(failure);
  });

  test("that exceeds the size limit stores only this fact", async () => {
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    expect(await deliver(id, answer("x".repeat(1001)))).toBe("stored");
    expect(await open().read(id)).toMatchObject({ kind: "too_long", status: 200 });
  });

  test("that is repeated counts as the same at any time, and a different one does not change it", async () => {
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    const first = answer('"at":7', { at: 1 });
    await deliver(id, first);
    expect(await deliver(id, { ...first, at: 2 })).toBe("same");
    expect(await deliver(id, answer('"at":8'))).toBe("another");
    expect(await deliver(id, answer('"at":7', { status: 201 }))).toBe("another");
    expect(await open().read(id)).toEqual(first);
  });

  test("that is repeated after its result was evicted counts as the same, and is not stored again", async () => {
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    await deliver(id, answer("a"));
    await redis.client.del(keys.result(id));
    expect(await deliver(id, answer("a"))).toBe("same");
    expect(await open().read(id)).toEqual({ kind: "gone" });
  });

  test("of an answer replaces that of a failure, kept or not, and never the reverse", async () => {
    const failure = { kind: "failure", status: 500, contentType: undefined, at: 1, by: "delivery" } as const;
    for (const isKept of [true, false]) {
      const id = await aRecord({ st: "INJECTED", rs: "awaited" });
      expect(await deliver(id, { ...failure, title: "first" })).toBe("stored");
      expect(await deliver(id, { ...failure, title: "second" })).toBe("another");
      if (!isKept) await redis.client.del(keys.result(id));
      expect(await deliver(id, answer("done"))).toBe("stored");
      expect(await deliver(id, { ...failure, title: "first" })).toBe("another");
      expect(await open().read(id)).toEqual(answer("done"));
    }
    const [counted, indexed] = await bytes();
    expect(counted).toBe(indexed);
  });

  test.each(["DISCARDED", "REFUND_PENDING", "REFUNDED"])("of a call that is %s is too late", async (st) => {
    const id = await aRecord({ st });
    expect(await deliver(id, answer("a"))).toBe("too late");
    expect(await storeProgress(id, { at: 1, json: "{}" })).toBe("ended");
    expect(await redis.client.exists(keys.result(id))).toBe(0);
  });

  test("of a failed call replaces its failure, and marks it as having a possible effect", async () => {
    const id = await aRecord({ st: "FAILED", fc: "runner.timed_out", unsure: "0" });
    expect(await deliver(id, answer("done after all"))).toBe("stored");
    expect(await open().read(id)).toMatchObject({ kind: "answer" });
    expect(await redis.client.hmget(keys.record(id), "unsure", "st", "fc")).toEqual([
      "1",
      "FAILED",
      "runner.timed_out",
    ]);
  });

  test("of a call without a record is stored, and creates no record", async () => {
    const id = randomCallId();
    expect(await deliver(id, answer("a"))).toBe("stored");
    expect(await open().read(id)).toMatchObject({ kind: "answer" });
    expect(await redis.client.exists(keys.record(id))).toBe(0);
    expect(await deliver(id, answer("b"))).toBe("another");
  });

  test("extends the expiry of the record and the payment to that of the result", async () => {
    const short = await aRecord({ st: "INJECTED", rs: "awaited" });
    await redis.client.hset(keys.payment(short), "claimed_at", "1");
    for (const key of [keys.record(short), keys.payment(short)]) await redis.client.pexpire(key, 1000);
    const queued = await aRecord({ st: "QUEUED" });
    for (const id of [short, queued]) await deliver(id, answer("a"));
    for (const key of [keys.record(short), keys.payment(short)])
      expect(await redis.client.pttl(key)).toBeGreaterThan(3_600_000);
    expect(await redis.client.pttl(keys.record(queued))).toBe(-1);
  });

  test("is refused, and changes nothing, if no process writes such a record", async () => {
    const id = await aRecord({ st: "LATER" });
    await expect(deliver(id, answer("a"))).rejects.toMatchObject({ code: "record.unreadable" });
    expect(await redis.client.exists(keys.result(id))).toBe(0);
  });
});

describe("the job of a call", () => {
  const queue = "webhook/7/3";

  test("is known from its record: from its route, if it was bought, or from the claim of a delivery id", async () => {
    expect(await open().jobOf(await aRecord({ rt: "/x402/jobs/7/12" }))).toBe("7/12");
    const call = aCall({ job_id: 3 });
    const claim = { by: "test", bodySha256: call.sha256, windowMs: 60_000 };
    await createEnqueue(redis.partition)(call, claim);
    expect(await open().jobOf(call.id)).toBe("7/3");
  });

  test("is known without a record once its runner has answered, if its result is kept", async () => {
    const id = randomCallId();
    expect(await open().jobOf(id)).toBeUndefined();
    await markInjected(redis.partition, { id, queue }, { known: "awaited" });
    expect(await open().jobOf(id)).toBe("7/3");
  });
});

describe("the progress of a call", () => {
  test("is shown, only the newest, until the result is stored", async () => {
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    for (const at of [1, 2])
      expect(await storeProgress(id, { at, json: `{"percent":${at}}` })).toBe("stored");
    expect(await open().read(id)).toMatchObject({
      kind: "pending",
      progress: { at: 2, json: '{"percent":2}' },
    });
    await deliver(id, answer("a"));
    expect(await redis.client.exists(keys.progress(id))).toBe(0);
    expect(await storeProgress(id, { at: 3, json: "{}" })).toBe("ended");
    const [counted, indexed] = await bytes();
    expect(counted).toBe(indexed);
  });
});

describe("all results together", () => {
  test("take at most their limit of bytes: the oldest are evicted, and their calls say that they are gone", async () => {
    const ids = await Promise.all(
      Array.from({ length: 20 }, () => aRecord({ st: "INJECTED", rs: "awaited" })),
    );
    const results = open();
    // Each result is kept a little longer than the one before it, so that no two have the same age within a millisecond.
    for (const [i, id] of ids.entries())
      await createDeliverResult(redis.partition, { ...LIMITS, resultMs: LIMITS.resultMs + 100 * i })(
        id,
        answer("x".repeat(600)),
      );
    const read = await Promise.all(ids.map((id) => results.read(id)));
    const kinds = read.map(({ kind }) => kind);
    const first = kinds.indexOf("answer");
    expect(first).toBeGreaterThan(5);
    expect(kinds.slice(0, first)).toEqual(Array(first).fill("gone"));
    expect(kinds.slice(first)).toEqual(Array(20 - first).fill("answer"));
    const [counted, indexed] = await bytes();
    expect(counted).toBe(indexed);
    expect(counted).toBeLessThanOrEqual(LIMITS.bytesMax);
  });

  test("are counted correctly even if results replace each other", async () => {
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    for (let i = 1; i < 10; i++) await storeProgress(id, { at: 1, json: "1".repeat(i * 10) });
    await deliver(id, answer("x"));
    const [counted, indexed] = await bytes();
    expect([counted, await redis.client.zcard(keys.results)]).toEqual([indexed, 1]);
  });

  test("lose expired results when another is stored, but keep one that has replaced another", async () => {
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    await createStoreProgress(redis.partition, { ...LIMITS, resultMs: 1 })(id, { at: 1, json: "short" });
    await expect.poll(() => redis.client.exists(keys.progress(id))).toBe(0);
    await storeProgress(id, { at: 2, json: "a longer one" });
    await deliver(await aRecord({ st: "INJECTED" }), answer("x"));
    expect(await open().read(id)).toMatchObject({ progress: { json: "a longer one" } });
    const [counted, indexed] = await bytes();
    expect(counted).toBe(indexed);
  });

  test("are not kept while a gateway evicts them: a new result is gone at once", async () => {
    await redis.client.set(keys.resultsOff, "a gateway");
    const id = await aRecord({ st: "INJECTED", rs: "awaited" });
    expect(await deliver(id, answer("x"))).toBe("stored");
    expect(await open().read(id)).toEqual({ kind: "gone" });
    expect(await deliver(id, answer("x"))).toBe("same");
  });
});
