import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { silentLogger } from "../../../shared/log/logger.ts";
import { createAdd } from "../../../shared/queue/enqueue.ts";
import { beat } from "../../../shared/queue/heartbeat.ts";
import { createReplay } from "../../../shared/queue/replay.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { INJECTED, type TestConsumer, useConsumers } from "../../fixtures/consumers.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";

/* A call that ends each process that has it in hand. A consumer that is killed stands for the process. */

const QUEUE = "webhook/7/1";
const redis = useRedis();
beforeEach(async () => {
  await redis.client.flushall();
});
const consumers = useConsumers(redis);
const ends = useEnds();
const never = () => new Promise<never>(() => {});

async function add(fields: Parameters<typeof aCall>[0] = {}): Promise<string> {
  const call = aCall(fields);
  await createAdd(partitionOf(redis.client))(call);
  return call.id;
}

/** A consumer whose connections end as soon as it has this call in hand. */
const startMortal = (pill: string) =>
  consumers.start({
    lockMs: 500,
    async deliver({ id }, by: TestConsumer) {
      if (id !== pill) return INJECTED;
      await by.kill();
      return never();
    },
  });

/** As if the call had ended so many processes. */
const hasEnded = (pill: string, times: number) => redis.client.hset(keys.inQueue(QUEUE, pill), "stc", times);

const crashes = async (id: string) => Number(await redis.client.hget(keys.inQueue(QUEUE, id), "stc"));

test("a call that has ended two processes is taken by one that has nothing else in hand", async () => {
  const pill = await add();
  for (let i = 0; i < 2; i++) await (await startMortal(pill)).took(pill);
  const inHand = new Set<string>();
  const beside: string[][] = [];
  let end = () => {};
  const consumer = await consumers.start({
    lockMs: 500,
    async deliver({ id }) {
      if (id === pill) beside.push([...inHand]);
      inHand.add(id);
      if (id === other) await new Promise<void>((resolve) => (end = resolve));
      inHand.delete(id);
      return INJECTED;
    },
  });
  const other = await add({ job_id: 2 });
  await consumer.took(other);
  await eventually("it is to be taken alone", () =>
    consumer.log.events.some(({ event }) => event === "call.alone"),
  );
  const later = await add({ job_id: 3 });
  expect(consumer.taken).toEqual([other]);
  end();
  await consumer.took(later);
  expect(consumer.taken.slice(0, 2)).toEqual([other, pill]);
  expect(beside).toEqual([[]]);
});

test("a call that ends a third process is told of without its data, and no other call is", async () => {
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
  expect(seen.get(pill)).toEqual({ crashes: 3, stored: {} });
  expect(seen.get(beside)).toEqual({ crashes: 0, stored: expect.objectContaining({ id: beside }) });
});

test("a call whose attempt ends while its process goes on counts as harmless again", async () => {
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

test("a call whose lock runs out under a worker that is alive has ended no process", async () => {
  const alive = await consumers.start({ workerName: "alive", lockMs: 4000, deliver: never });
  const heart = beat(partitionOf(redis.client), "alive", systemClock);
  ends.defer(() => heart.stop());
  const id = await add();
  await alive.took(id);
  await redis.client.del(keys.inQueue(QUEUE, `${id}:lock`));
  await eventually("it is taken back", () =>
    alive.log.events.some(({ event }) => event === "call.taken_back"),
  );
  expect(await crashes(id)).toBe(0);
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
  expect(consumer.log.events.filter(({ event }) => event === "call.alone")).toHaveLength(1);
});
