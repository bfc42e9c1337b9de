import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import type { JobCall } from "../../../../shared/call/job-call.ts";
import { encodeKeepArgs } from "../../../../shared/call/kept/kept.ts";
import { encodeAnswer } from "../../../../shared/call/results/answer.ts";
import { createForget, type Forget } from "../../../../shared/call-search/forget.ts";
import { createReadKept, createReadLife } from "../../../../shared/call-search/life.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { openBackends, type QueueBackend } from "../../../../shared/queue/backend.ts";
import { createCallRecords } from "../../../../shared/queue/call-record.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { contentsOf } from "../../../support/redis-content.ts";
import { WORK } from "../../../support/results.ts";

const redis = useRedis();
const QUEUE = "webhook/7/1";
const TOKEN = "worker:1";
const HOUR_MS = 3_600_000;
const KEEPS = { secs: 7200, bytes_max: 100_000 };
const ANSWER = { status: 202, contentType: "text/plain", body: "taken" };

let backend: QueueBackend;
let forget: Forget;
const readKept = (id: string) => createReadKept(redis.partition)(id);

beforeAll(() => {
  const { partition } = redis;
  backend = openBackends(partition, WORK)(QUEUE);
  forget = createForget({ partition, clock: systemClock, log: silentLogger, by: "me@here" });
});
beforeEach(() => redis.client.flushdb());

function aKeptCall({ path = "/a", bytes = 5, keeps = KEEPS } = {}): JobCall {
  const call = aCall({ body: Buffer.alloc(bytes, "x"), keep_delivered: keeps });
  const metadata = { ...call.metadata, "X-WEBHOOK-PATH": path, "X-Topic": "orders" };
  return { ...call, metadata };
}

/** Adds a call and has a worker take it. */
async function take(call: JobCall): Promise<JobCall> {
  await createEnqueue(redis.partition)(call);
  await backend.fetch(TOKEN, { bytes: undefined, alone: false });
  return call;
}

function reportInjected(call: JobCall): Promise<unknown> {
  const kept = encodeKeepArgs(call, encodeAnswer(ANSWER, 1000, 1));
  return backend.injected(call.id, TOKEN, { fetchNext: undefined, retried: false, kept });
}

async function deliver(call: JobCall): Promise<JobCall> {
  await take(call);
  await reportInjected(call);
  return call;
}

const isKept = async (id: string) => (await redis.client.exists(keys.kept(id))) === 1;
const bytesOf = async (path: string) => Number(await redis.client.get(keys.keptBytes(path)));

test("the script that records a delivery keeps the whole call with the answer for its time, and the record no longer", async () => {
  const call = await deliver(aKeptCall());
  expect(await readKept(call.id)).toEqual({
    call,
    answer: {
      ...{ kind: "answer", status: 202, contentType: "text/plain", at: 1, by: "answer" },
      body: Buffer.from("taken"),
    },
  });
  const [kept, record] = await Promise.all(
    [keys.kept(call.id), keys.record(call.id)].map((key) => redis.client.pttl(key)),
  );
  expect(kept).toBeGreaterThan(2 * HOUR_MS - 10_000);
  expect(kept).toBeLessThanOrEqual(2 * HOUR_MS);
  expect(record).toBeLessThanOrEqual(HOUR_MS);
  expect(await redis.client.hget(keys.bytes, QUEUE)).toBe("0");
});

test("without the setting, no key for kept calls is written", async () => {
  await deliver(aCall());
  const names = await redis.client.keys("*");
  expect(names.filter((name) => name.includes(":kept"))).toEqual([]);
});

test("the call of a payment or a callback is never kept, even with the setting", () => {
  for (const origin of ["x402", "callback"] as const)
    expect(encodeKeepArgs({ ...aKeptCall(), origin })).toBeUndefined();
});

describe("the kept calls of an endpoint take at most its bytes_max:", () => {
  test("the oldest are evicted, and those of another endpoint stay", async () => {
    const keeps = { secs: 7200, bytes_max: 10_000 };
    const other = await deliver(aKeptCall({ path: "/b", bytes: 3000, keeps }));
    const calls: JobCall[] = [];
    for (let i = 0; i < 5; i++) calls.push(await deliver(aKeptCall({ bytes: 2500, keeps })));
    expect(await Promise.all(calls.map(({ id }) => isKept(id)))).toEqual([false, false, false, true, true]);
    expect(await isKept(other.id)).toBe(true);
    expect(await bytesOf("/a")).toBeLessThanOrEqual(10_000);
    expect(await redis.client.zcard(keys.keptOf("/a"))).toBe(2);
  });

  test("a call that exceeds the limit by itself is not kept, and evicts no other", async () => {
    const small = await deliver(aKeptCall({ keeps: { secs: 60, bytes_max: 2000 } }));
    for (const bytes of [1200, 5000]) {
      const large = await deliver(aKeptCall({ bytes, keeps: { secs: 60, bytes_max: 2000 } }));
      expect(await isKept(large.id)).toBe(false);
    }
    expect(await isKept(small.id)).toBe(true);
  });

  test("a shorter time of the endpoint does not delete the count of calls that are kept longer", async () => {
    const keeps = { secs: 7200, bytes_max: 10_000 };
    for (let i = 0; i < 2; i++) await deliver(aKeptCall({ bytes: 2500, keeps }));
    await deliver(aKeptCall({ bytes: 2500, keeps: { ...keeps, secs: 60 } }));
    const [index = 0, count] = await Promise.all(
      [keys.keptOf("/a"), keys.keptBytes("/a")].map((key) => redis.client.pttl(key)),
    );
    expect(index).toBeGreaterThan(HOUR_MS);
    expect(count).toBeGreaterThanOrEqual(index - 1000);
  });

  test("expired calls do not count", async () => {
    const gone = await deliver(aKeptCall({ bytes: 2500 }));
    await redis.client.del(keys.kept(gone.id), keys.keptOf("/a"));
    const next = await deliver(aKeptCall());
    expect(await bytesOf("/a")).toBe((await redis.client.strlen(keys.kept(next.id))) + 320);
  });
});

describe("a delivery that is reported again or late", () => {
  test("stays as it was kept, if only the reply was lost", async () => {
    const call = await deliver(aKeptCall());
    const before = await contentsOf(redis.client, [keys.kept(call.id), keys.keptBytes("/a")]);
    await expect(reportInjected(call)).rejects.toThrow();
    expect(await contentsOf(redis.client, [keys.kept(call.id), keys.keptBytes("/a")])).toEqual(before);
  });

  async function failed(call: JobCall): Promise<void> {
    await take(call);
    const job = { id: call.id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await createCallRecords(redis.partition).failed({ id: call.id, queue: QUEUE }, Date.now());
    await backend.moveToFailed(job, "runner.failed: 500", false, TOKEN, false);
  }

  test("is kept, if the call had failed meanwhile", async () => {
    const call = aKeptCall();
    await failed(call);
    await expect(reportInjected(call)).rejects.toThrow();
    expect((await readKept(call.id))?.call).toEqual(call);
    expect(await redis.client.exists(keys.inQueue(QUEUE, call.id))).toBe(0);
  });

  test("is not kept, if the call was forgotten meanwhile", async () => {
    const call = aKeptCall();
    await failed(call);
    await forget(call.id, "the law");
    await expect(reportInjected(call)).rejects.toThrow();
    expect(await redis.client.keys("*:kept*")).toEqual([]);
  });
});

test("forgetting a delivered call deletes its kept data, and it no longer counts", async () => {
  const [call, other] = [await deliver(aKeptCall()), await deliver(aKeptCall())];
  await redis.client.del(keys.record(call.id));
  expect(await forget(call.id, "the law")).toEqual({ kind: "done" });
  expect([await isKept(call.id), await isKept(other.id)]).toEqual([false, true]);
  expect(await redis.client.zcard(keys.keptOf("/a"))).toBe(1);
  expect(await bytesOf("/a")).toBe((await redis.client.strlen(keys.kept(other.id))) + 320);
});

test("a kept call whose record has expired is shown as injected, and is forgotten as such", async () => {
  const call = await deliver(aKeptCall());
  await redis.client.del(keys.record(call.id));
  const readLife = createReadLife(redis.partition);
  expect(await readLife(call.id)).toMatchObject({
    ...{ state: "injected", origin: "webhook", job: "7/1", head: { metadata: call.metadata } },
    result: { kind: "answer", status: 202 },
  });
  await forget(call.id, "the law");
  expect(await readLife(call.id)).toMatchObject({
    state: "injected",
    head: undefined,
    result: { kind: "gone" },
  });
});

test("no call is kept while a gateway evicts kept calls", async () => {
  await redis.client.set(keys.keptOff, "a gateway");
  const { id } = await deliver(aKeptCall());
  expect(await isKept(id)).toBe(false);
  expect(await createCallRecords(redis.partition).state(id)).toBe("INJECTED");
});
