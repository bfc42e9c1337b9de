import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { createReplay } from "../../../shared/queue/replay.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { INJECTED, type TestConsumer, useConsumers } from "../../fixtures/consumers.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

/* These tests have a call that ends each process that runs it. A consumer that is killed takes the place of such a process. */

const QUEUE = "webhook/7/1";
const LOCK_MS = 2000;
const redis = useRedis();
beforeEach(async () => {
  await redis.client.flushall();
});
const consumers = useConsumers(redis);
const never = () => new Promise<never>(() => {});

async function add(fields: Parameters<typeof aCall>[0] = {}): Promise<string> {
  const call = aCall(fields);
  await createEnqueue(partitionOf(redis.client))(call);
  return call.id;
}

/** Starts a consumer whose connections are closed as soon as it runs this call. */
const startMortal = (pill: string) =>
  consumers.start({
    lockMs: 500,
    async deliver({ id }, by: TestConsumer) {
      if (id !== pill) return INJECTED;
      await by.kill();
      return never();
    },
  });

/** Sets the call's count of ended processes. */
const hasEnded = (pill: string, times: number) => redis.client.hset(keys.inQueue(QUEUE, pill), "stc", times);

const crashes = async (id: string) => Number(await redis.client.hget(keys.inQueue(QUEUE, id), "stc"));

test("a call that has ended two processes is taken by a process without any other call", async () => {
  const pill = await add();
  for (let i = 0; i < 2; i++) await (await startMortal(pill)).took(pill);
  const inFlight = new Set<string>();
  const beside: string[][] = [];
  let end = () => {};
  const consumer = await consumers.start({
    lockMs: 500,
    async deliver({ id }) {
      if (id === pill) beside.push([...inFlight]);
      inFlight.add(id);
      if (id === other) await new Promise<void>((resolve) => (end = resolve));
      inFlight.delete(id);
      return INJECTED;
    },
  });
  const other = await add({ job_id: 2 });
  await consumer.took(other);
  await eventually("the call is marked to be taken alone", () =>
    consumer.log.events.some(({ event }) => event === "call.isolated"),
  );
  const later = await add({ job_id: 3 });
  expect(consumer.taken).toEqual([other]);
  end();
  await consumer.took(later);
  expect(consumer.taken.slice(0, 2)).toEqual([other, pill]);
  expect(beside).toEqual([[]]);
});

test("a call that ends a third process is reported without its data, and no other call fails", async () => {
  const pill = await add();
  await hasEnded(pill, 2);
  await (await startMortal(pill)).took(pill);
  const beside = await add();
  const seen = new Map<string, { crashes: number; stored: unknown }>();
  const consumer = await consumers.start({
    lockMs: 500,
    deliver({ id, crashes, takeStored }) {
      seen.set(id, { crashes, stored: takeStored() });
      return id === pill ? { kind: "fail", reason: "call.poison_pill: it ends processes" } : INJECTED;
    },
  });
  for (const id of [pill, beside]) await consumer.took(id);
  expect(seen.get(pill)).toEqual({ crashes: 3, stored: undefined });
  expect(seen.get(beside)).toEqual({ crashes: 0, stored: expect.objectContaining({ id: beside }) });
});

test("a call whose attempt ends while its process continues counts as harmless again", async () => {
  const pill = await add();
  await hasEnded(pill, 2);
  const consumer = await consumers.start({
    lockMs: 500,
    deliver: ({ attempt }) =>
      attempt === 1 ? { kind: "retry", afterMs: 60_000, reason: "runner.failed: it did" } : INJECTED,
  });
  await consumer.took(pill);
  await eventually("nothing is held against it", async () => (await crashes(pill)) === 0);
});

onlyInLongRun(() => {
  test("only one worker waits to take a call alone, while the others continue", async () => {
    const jobs = openJobs(redis.partitions);
    await jobs.pause("7/1", { at: 1, by: "a test", reason: "" });
    const pill = await add();
    await hasEnded(pill, 2);
    const open: (() => void)[] = [];
    const busy = (job: number) =>
      consumers.start({
        lockMs: LOCK_MS,
        serves: (queue) => queue !== `webhook/7/${job}`,
        async deliver({ queue }) {
          if (queue.endsWith("/8") || queue.endsWith("/9"))
            await new Promise<void>((resolve) => open.push(resolve));
          return INJECTED;
        },
      });
    const both = [await busy(8), await busy(9)];
    const slow = [await add({ job_id: 8 }), await add({ job_id: 9 })];
    await eventually("each has a slow call in flight", () => open.length === 2);
    await jobs.resume("7/1", { at: Date.now(), by: "a test" });
    const isAlone = ({ log }: TestConsumer) => log.events.some(({ event }) => event === "call.isolated");
    await eventually("one of them may take the call alone", () => both.some(isAlone));
    const since = Date.now();
    await eventually("its place would have run out twice", () => Date.now() - since > 2 * LOCK_MS);
    for (let i = 0; i < 5; i++) {
      const other = await add({ job_id: 10 + i });
      await eventually("it is taken", () => both.some(({ taken }) => taken.includes(other)));
    }
    expect(both.filter(isAlone)).toHaveLength(1);
    expect(both.some(({ taken }) => taken.includes(pill))).toBe(false);
    for (const end of open) end();
    await eventually("it is taken", () => both.some(({ taken }) => taken.includes(pill)));
    expect(both.flatMap(({ taken }) => taken).filter((id) => [pill, ...slow].includes(id))).toHaveLength(3);
  });

  test("a suspended worker whose call was taken back reduces the call's crash count when it continues", async () => {
    const stood = await consumers.start({ lockMs: 8000, deliver: never });
    const id = await add();
    await stood.took(id);
    const { client } = redis;
    await client.set(keys.inQueue(QUEUE, `${id}:lock`), "of another worker");
    await client.hset(keys.inQueue(QUEUE, id), "stc", 1);
    await eventually("it is no suspect", async () => (await crashes(id)) === 0);
    await client.del(keys.inQueue(QUEUE, `${id}:lock`));
  });
});

test("a worker whose lock has expired continues with the call and ends it, if no other worker has taken it back", async () => {
  let end = () => {};
  const consumer = await consumers.start({
    lockMs: 60_000, // the worker renews locks and looks for stalled calls every 15 s
    deliver: () => new Promise((resolve) => (end = () => resolve(INJECTED))),
  });
  const id = await add();
  await consumer.took(id);
  await redis.client.del(keys.inQueue(QUEUE, `${id}:lock`));
  end();
  await eventually(
    "the call is gone",
    async () => (await redis.client.exists(keys.inQueue(QUEUE, id))) === 0,
  );
  expect(consumer.taken).toEqual([id]);
  expect(consumer.log.events).toEqual([]);
});

test("a call that failed as a poison pill and is replayed is taken alone", async () => {
  const pill = await add();
  await hasEnded(pill, 3);
  const consumer = await consumers.start({
    lockMs: 500,
    deliver: ({ crashes }) =>
      crashes === 3 ? { kind: "fail", reason: "call.poison_pill: it ends processes" } : INJECTED,
  });
  const failedAt = async () => Number(await redis.client.zscore(keys.inQueue(QUEUE, "failed"), pill));
  await eventually("it is failed", async () => (await failedAt()) > 0);
  const by = { partition: partitionOf(redis.client), clock: systemClock, log: silentLogger, by: "a test" };
  const failed = { id: pill, queue: QUEUE, failedAt: await failedAt() };
  expect(await createReplay(by)(failed, { selection: "by test" })).toBe("done");
  await eventually("it is taken again", () => consumer.taken.length === 2);
  expect(consumer.log.events.filter(({ event }) => event === "call.isolated")).toHaveLength(1);
});
