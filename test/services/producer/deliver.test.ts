import { expect, test } from "vitest";
import { type Inject, Refused } from "../../../services/producer/producer.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { createFailedRecords } from "../../../shared/queue/call-record.ts";
import { queueOf } from "../../../shared/queue/queue-name.ts";
import { useFakeRunner } from "../../fixtures/fake-runner.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import type { Fault } from "../../fixtures/redis-proxy.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";

const redis = useRedis();
const proxy = useRedisProxy(redis);
const runner = useFakeRunner();
const producers = useProducer({ redis });

test("a stored call whose body does not match its hash, or that lacks a field, fails without being sent", async () => {
  const call = aCall();
  await producers.queues.addStored(call, { ...call, body: "AAAA" });
  const other = aCall();
  await producers.queues.addStored(other, { ...other, service_id: "2" });
  producers.start({ runnerUrl: runner.url });
  await eventually(
    "both are among the failed",
    async () => (await producers.queues.jobs("failed")).length === 2,
  );
  expect((await producers.queues.jobs("failed")).map((job) => job.failedReason)).toEqual(
    Array(2).fill(expect.stringMatching(/^call\.corrupt: /)),
  );
  expect(runner.offers).toEqual([]);
});

test.each([
  ["a state that no process writes", (key: string) => redis.client.hset(key, "st", "LATER")],
  ["a key of another type", (key: string) => redis.client.set(key, "QUEUED")],
])(
  "a call whose record is %s fails without being sent, without an attempt and with its record unchanged",
  async (_, write) => {
    const call = aCall();
    await write(keys.record(call.id));
    const before = await redis.client.dump(keys.record(call.id));
    await producers.queues.addStored(call, call);
    const { saw, log } = producers.start({ runnerUrl: runner.url });
    await saw("call.failed");
    await eventually(
      "it is among the failed",
      async () => (await producers.queues.jobs("failed")).length === 1,
    );
    const [failed] = await producers.queues.jobs("failed");
    expect(failed?.failedReason).toMatch(/^record\.unreadable: /);
    expect(log.events.find(({ event }) => event === "call.failed")?.fields).toMatchObject({
      ...{ callId: call.id, code: "record.unreadable" },
    });
    expect(runner.offers).toEqual([]);
    expect(await redis.client.dump(keys.record(call.id))).toEqual(before);
    expect(await producers.records.attempts(call.id)).toEqual([]);
    const act = { at: Date.now(), callId: call.id, by: "otto", selection: "by id", reason: "x" } as const;
    const ref = { id: call.id, queue: queueOf(call), failedAt: failed?.finishedOn ?? 0 };
    const records = createFailedRecords(redis.partition);
    for (const change of [
      () => records.beginReplay(ref, { ...act, action: "replay" }),
      () => records.beginDiscard(ref, { ...act, action: "discard" }),
    ])
      await expect(change()).rejects.toMatchObject({ code: "record.unreadable" });
    expect(await redis.client.dump(keys.record(call.id))).toEqual(before);
  },
);

test("a call with a field that this release does not know is delivered", async () => {
  const call = aCall();
  await producers.queues.addStored(call, { ...call, priority: 3 });
  const { saw, log } = producers.start({ runnerUrl: runner.url });
  await saw("call.injected");
  expect(log.events.at(-1)?.fields).toMatchObject({ callId: call.id, serviceId: 7, jobId: 1 });
});

test("a call whose end is recorded is not sent again, however often it is added", async () => {
  const { saw } = producers.start({ runnerUrl: runner.url });
  const call = aCall();
  await producers.add(call);
  await saw("call.injected");
  await producers.add(call);
  await saw("call.already_ended");
  const discarded = aCall();
  const records = createFailedRecords(redis.partition);
  await records.endDiscard({ ...discarded, queue: queueOf(discarded) }, Date.now());
  await producers.add(discarded);
  await saw("call.already_ended", 2);
  expect(runner.offers).toHaveLength(1);
  await eventually(
    "the queue is empty",
    async () => (await producers.queues.countIn("wait", "active", "delayed", "failed")) === 0,
  );
});

test("an injected call leaves only its record, and the record expires", async () => {
  const call = aCall();
  await producers.add(call);
  await producers.start({ runnerUrl: runner.url }).saw("call.injected");
  await eventually("the job is gone", async () => (await producers.queues.find(call.id)) === undefined);
  const left = await redis.client.keys(`*${call.id}*`);
  expect(left).toEqual([keys.record(call.id)]);
  expect(await redis.client.pttl(left[0]!)).toBeGreaterThan(3_500_000);
});

test("a 2xx that cannot be recorded at once is recorded later, and the call is sent once", async () => {
  const { saw, count } = producers.start({ redisUrl: proxy.url, runnerUrl: runner.url, attempts: 1 });
  const full: Fault = { kind: "rewrite", words: ["EVAL", "return redis.error_reply('OOM')", "0"] };
  const call = aCall();
  let failures = 0;
  proxy.onCommand = (words) => (words.includes(call.id) && failures++ < 2 ? full : undefined);
  await producers.add(call);
  await saw("call.injected");
  expect(failures).toBeGreaterThan(2);
  expect([count("call.failed"), count("call.delayed"), runner.offers.length]).toEqual([0, 0, 1]);
});

test("a program's own inject is called again after a plain error, and Refused fails the call", async () => {
  const seen: string[] = [];
  const inject: Inject = async ({ call, body }) => {
    seen.push(`${call.id} ${body}`);
    if (String(body) === "bad") throw new Refused("I cannot use this");
    if (seen.length === 1) throw new Error("not yet");
  };
  const { saw, log } = producers.start({ inject });
  const good = aCall({ body: Buffer.from("good") });
  await producers.add(good);
  await saw("call.injected");
  expect(seen).toEqual(Array(2).fill(`${good.id} good`));
  await producers.add(aCall({ body: Buffer.from("bad") }));
  await saw("call.failed");
  expect(log.events.at(-1)?.fields).toMatchObject({ code: "runner.refused", reason: "I cannot use this" });
});

test("a call whose errors contain half a surrogate pair fails after its last attempt, and each attempt is kept", async () => {
  // V8's message quotes only the first half of the emoji, which must be replaced. The escape `\ud83d` is plain text from a
  // runner, and must stay unchanged.
  const inject: Inject = async () => JSON.parse("\u{1f600} \\ud83d");
  const { saw, count } = producers.start({ inject, attempts: 3 });
  const call = aCall();
  await producers.add(call);
  await saw("call.failed");
  expect(count("call.record_failed")).toBe(0);
  const attempts = await producers.records.attempts(call.id);
  expect(attempts.map(({ n }) => n)).toEqual([1, 2, 3]);
  for (const { reason } of attempts)
    expect(reason).toBe(`Unexpected token '\ufffd', "\u{1f600} \\ud83d" is not valid JSON`);
});

test("a program's own inject learns by hold.signal that the call no longer belongs to this worker", async () => {
  let waits = false;
  const inject: Inject = (_, { signal }) => {
    waits = true;
    return new Promise((_resolve, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason as Error)),
    );
  };
  const { producer, count } = producers.start({ inject });
  await producers.add(aCall());
  await eventually("it has the call", () => waits);
  await producer.close(0);
  expect(count("call.released")).toBe(1);
});
