import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { randomCallId } from "../../../shared/call/call-id.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { Redis } from "../../../shared/redis/connect.ts";
import { Partitioned, type Partitions } from "../../../shared/redis/partition.ts";
import { INJECTED, type TestConsumer, useConsumers } from "../../fixtures/consumers.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { useOwnRedis, useRedis } from "../../fixtures/redis.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { partitionsOver } from "../../support/partitions.ts";

const COUNT = 4;
const INDEXES = new Partitioned([0, 1, 2, 3]);

const redis = useRedis();
const other = useOwnRedis();
const producers = useProducer({ redis });
const consumers = useConsumers(redis);
let partitions: Partitions;
beforeEach(async () => {
  await other.client.flushall();
  partitions = partitionsOver(redis.client, COUNT);
});

/** Moves the partition `away` to another server than the other partitions. Returns the URL of each partition. */
function withOneElsewhere(away: number) {
  const at = (index: number): { client: Redis; url: string } => (index === away ? other : redis);
  partitions = partitions.map((each, index) => ({ ...each, redis: at(index).client }));
  return INDEXES.all.map((index) => at(index).url);
}

/** Adds a call of this job whose id belongs to the partition `index`. */
async function add(index: number, job_id = 1, fields: Parameters<typeof aCall>[0] = {}): Promise<string> {
  let id = randomCallId();
  while (INDEXES.of(id) !== index) id = randomCallId();
  await createEnqueue(partitions.of(id))(aCall({ id, job_id, ...fields }));
  return id;
}

/** Adds this number of calls to each partition. */
async function addToAll(calls: number, job_id = 1): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < calls; i++) for (const index of INDEXES.all) ids.push(await add(index, job_id));
  return ids;
}

/**
 * Sets the limits of job 7/1 in partition 0, and notes in each partition that the job needs permits, as a start with such a
 * configuration does.
 */
async function limit(limits: Record<string, number>): Promise<void> {
  await partitions.control.redis.hset(partitions.control.keys.limits("7/1"), limits);
  for (const { redis: at, keys } of partitions.all) await at.hset(keys.job("7/1"), { permit: 1 });
}

const permitsHeld = async () =>
  Number(await partitions.control.redis.zcard(partitions.control.keys.permits("7/1")));

/** A runner whose calls run until the test ends them, and which counts how many run at once. */
function createHeldCalls() {
  const running = new Map<string, () => void>();
  const begun: string[] = [];
  let most = 0;
  return {
    running,
    begun,
    get most() {
      return most;
    },
    run: (id: string) =>
      new Promise<void>((resolve) => {
        begun.push(id);
        running.set(id, () => {
          running.delete(id);
          resolve();
        });
        most = Math.max(most, running.size);
      }),
    endAll(): void {
      for (const end of [...running.values()]) end();
    },
  };
}

test("the calls of all partitions are injected once each, and share the slots", async () => {
  const held = createHeldCalls();
  const ids = (await Promise.all([1, 2, 3, 4, 5, 6].map((job) => addToAll(3, job)))).flat();
  const { count, producer } = producers.start({
    ...{ partitions: COUNT, concurrency: 10, setsLimits: true },
    inject: ({ call }) => held.run(call.id),
  });
  await producer.firstCheck;
  await eventually("what a new job does not need is used", () => held.running.size === 8);
  await eventually("all are injected", () => {
    held.endAll();
    return count("call.injected") === ids.length;
  });
  expect(held.begun.toSorted()).toEqual(ids.toSorted());
  expect(held.most).toBeLessThanOrEqual(10);
  expect(producer.readiness()).toMatchObject({
    ready: true,
    checks: { redis: "4 of 4 partitions can be used", partitions: Array(COUNT).fill({ redis: "none" }) },
  });
});

test.each(sample([1, 3]))(
  "a job's concurrency of %i applies over partitions and producers, and every queue gets its turn",
  async (most) => {
    const held = createHeldCalls();
    await limit({ concurrency: most });
    await addToAll(6);
    const two = [1, 2].map(() =>
      producers.start({ partitions: COUNT, inject: ({ call }) => held.run(call.id) }),
    );
    const injected = () => two.reduce((sum, { count }) => sum + count("call.injected"), 0);
    for (let ended = 0; ended < 24; ended++) {
      await eventually("as many run as may", () => held.running.size === Math.min(most, 24 - ended));
      [...held.running.values()][0]?.();
      await eventually("it is injected", () => injected() === ended + 1);
    }
    expect(held.most).toBe(most);
    const first = held.begun.slice(0, 12).map((id) => INDEXES.of(id));
    for (const index of INDEXES.all) expect(first.filter((each) => each === index).length).toBeGreaterThan(0);
    await eventually("no permit is held", async () => (await permitsHeld()) === 0);
  },
);

test("the permit of a killed producer ends with its lease, and no permit is lost", async () => {
  await limit({ concurrency: 2 });
  const ids = await addToAll(2);
  const dead = await consumers.start({
    ...{ partitions: COUNT, lockMs: 1000 },
    deliver: () => new Promise<never>(() => {}),
  });
  await eventually("both permits are in use", () => dead.taken.length === 2);
  await dead.kill();
  const held = createHeldCalls();
  const next = await consumers.start({
    ...{ partitions: COUNT, lockMs: 1000 },
    deliver: ({ id }) => held.run(id).then(() => INJECTED),
  });
  await eventually("both are in use again", () => held.running.size === 2);
  await eventually("all calls are taken", () => {
    held.endAll();
    return next.taken.length === ids.length;
  });
  expect(held.most).toBe(2);
  await eventually("no permit is held", async () => (await permitsHeld()) === 0);
});

test("a permit that was not used for a call returns its slot and its rate", async () => {
  await limit({ concurrency: 1, max: 5, duration: 3_600_000 });
  const { control } = partitions;
  const consumer = await consumers.start({ partitions: COUNT });
  const taken = () => control.redis.get(control.keys.taken("7/1")).then(Number);
  for (const index of [0, 1, 2]) await consumer.took(await add(index));
  await eventually("no permit is held", async () => (await permitsHeld()) === 0);
  const all = partitions.all[3];
  for (let i = 0; i < 3; i++) {
    await all?.redis.zadd(all.keys.wake, 0, "webhook/7/1");
    await eventually(
      "the empty queue is fetched from",
      async () => (await all?.redis.zcard(all.keys.wake)) === 0,
    );
  }
  await eventually("three calls count", async () => (await taken()) === 3 && (await permitsHeld()) === 0);
  for (const index of [3, 3]) await consumer.took(await add(index));
});

test("a new worker passes on a permit that is reserved for a queue which is now empty", async () => {
  await limit({ concurrency: 1 });
  const { redis: at, keys } = partitions.control;
  const id = await add(1);
  await at.zadd(keys.permits("7/1"), Date.now() + 3_600_000, "for 0 webhook/7/1");
  await at.zadd(keys.permitWaiters("7/1"), 1, "1 webhook/7/1");
  const consumer = await consumers.start({ partitions: COUNT, pollMs: 3_600_000 });
  await at.zadd(partitions.all[0]?.keys.wake ?? "", 0, "webhook/7/1");
  await consumer.took(id);
});

test("only one worker at a time, over all partitions, takes a call alone", async () => {
  const pills = [await add(1, 1), await add(2, 2)];
  for (const [i, id] of pills.entries()) {
    const { redis: at, keys } = partitions.of(id);
    await at.hset(keys.inQueue(`webhook/7/${i + 1}`, id), "stc", 2);
  }
  const held = createHeldCalls();
  const deliver = ({ id }: { id: string }) => held.run(id).then(() => INJECTED);
  const two: TestConsumer[] = [];
  for (let i = 0; i < 2; i++) two.push(await consumers.start({ partitions: COUNT, lockMs: 500, deliver }));
  for (const ended of [0, 1]) {
    await eventually(
      "one is taken",
      () => held.begun.filter((id) => pills.includes(id)).length === ended + 1,
    );
    const isReserved = partitions.map(({ redis: at, keys }) => at.exists(keys.alone));
    expect(await Promise.all(isReserved.all)).toEqual([1, 0, 0, 0]);
    await add(3, 3);
    await eventually("the other worker goes on", () => held.running.size === 2);
    held.endAll();
  }
  expect(held.begun.filter((id) => pills.includes(id)).toSorted()).toEqual(pills.toSorted());
});

test("a partition that goes away keeps no slot, and its calls are injected once it is back", async () => {
  const held = createHeldCalls();
  const { producer, count } = producers.start({
    ...{ partitions: withOneElsewhere(2), concurrency: 4, lockMs: 10_000 },
    inject: ({ call }) => held.run(call.id),
  });
  await producer.firstCheck;
  const before = await Promise.all([1, 2, 3, 4].map((job) => add(2, job)));
  await eventually("all slots are used", () => held.running.size === 4);
  await other.server.kill("SIGKILL");
  held.endAll();
  const others = await Promise.all([0, 1, 3].map((index) => add(index)));
  await eventually("the others go on", () => {
    held.endAll();
    return count("call.injected") === 3;
  });
  const { ready, checks } = producer.readiness();
  expect(ready).toBe(true);
  const away = { redis: expect.stringMatching(/^queue\.unavailable/) };
  const there = { redis: "none" };
  expect(checks["partitions"]).toMatchObject([there, there, away, there]);
  await other.server.restart();
  const after = await add(2);
  await eventually("its calls are injected", () => {
    held.endAll();
    return count("call.injected") === 8;
  });
  expect(held.begun.toSorted()).toEqual([...before, ...others, after].toSorted());
});

test("a partition that is away or refused at the start is served once it can be used", async () => {
  const urls = withOneElsewhere(2);
  await add(2);
  const { layout } = (partitions.all[2] as (typeof partitions.all)[number]).keys;
  await other.client.set(layout, JSON.stringify({ layout: 1, release: "0.0.1" }));
  await other.server.kill("SIGKILL");
  const { producer, count, saw } = producers.start({ partitions: urls, inject: async () => {} });
  await producer.firstCheck;
  await add(1);
  await saw("call.injected");
  await other.server.restart();
  await saw("redis.unusable");
  await add(3);
  await saw("call.injected", 2);
  await other.client.del(layout);
  await eventually("its call is injected", () => count("call.injected") === 3);
});

test("while partition 0 is away, only the jobs with limits wait", async () => {
  const urls = withOneElsewhere(0);
  await limit({ concurrency: 1 });
  const { producer, count, saw } = producers.start({ partitions: urls, inject: async () => {} });
  await producer.firstCheck;
  await add(1);
  await saw("call.injected");
  await eventually("no permit is held", async () => (await permitsHeld()) === 0);
  await other.server.kill("SIGKILL");
  await add(1);
  const at = partitions.all[1];
  await eventually(
    "it is postponed",
    async () => (await at?.redis.zscore(at.keys.due, "webhook/7/1")) !== null,
  );
  await Promise.all([1, 2, 3].map((index) => add(index, 2)));
  await saw("call.injected", 4);
  expect(count("call.injected")).toBe(4);
  await other.server.restart();
  await saw("call.injected", 5);
});

onlyInLongRun(() => {
  test("a job whose calls hang in all partitions gets half of the slots, and another job continues", async () => {
    const held = createHeldCalls();
    await addToAll(4, 1);
    const { count } = producers.start({
      ...{ partitions: COUNT, concurrency: 10 },
      inject: ({ call }) => (call.job_id === 1 ? held.run(call.id) : Promise.resolve()),
    });
    await eventually("half of them are used", () => held.running.size === 5);
    await addToAll(5, 2);
    await eventually("the other job's are injected", () => count("call.injected") === 20);
    expect(held.most).toBe(5);
    held.endAll();
  });

  test("a job's rate applies over partitions and producers, and every queue gets its turn", async () => {
    const [max, duration] = [2, 500];
    await limit({ max, duration });
    await addToAll(3);
    const at: number[] = [];
    const begun: string[] = [];
    const inject = async ({ call }: { call: { id: string } }) => {
      at.push(performance.now());
      begun.push(call.id);
    };
    const two = [1, 2].map(() => producers.start({ partitions: COUNT, inject }));
    await eventually(
      "all are injected",
      () => two.reduce((sum, { count }) => sum + count("call.injected"), 0) === 12,
    );
    // Half of the period is enough: on a busy machine this process may learn of one call late and of the next in time.
    for (let i = 0; i + max < at.length; i += max)
      expect((at[i + max] ?? 0) - (at[i] ?? 0), `call ${i + max}`).toBeGreaterThan(duration / 2);
    expect((at.at(-1) ?? 0) - (at[0] ?? 0)).toBeGreaterThan((at.length / max - 1.5) * duration);
    // Nine of twelve calls must cover all partitions: waiting queues ask for a permit 20 ms apart, and a busy machine may
    // exchange two of them.
    expect(new Set(begun.slice(0, 9).map((id) => INDEXES.of(id))).size).toBe(COUNT);
  });

  test("several partitions together keep at most as much data of calls as one partition", async () => {
    const bytes_max = 8000;
    const keeps = { keep_result: true, keep_delivered: { secs: 3600, bytes_max } };
    for (let i = 0; i < 6; i++) for (const index of INDEXES.all) await add(index, 1, keeps);
    const { saw } = producers.start({
      ...{ partitions: COUNT, results: { result_bytes_max: 1000, bytes_max } },
      inject: async () => ({ status: 200, body: "x".repeat(100) }),
    });
    await saw("call.injected", 24);
    const sumOf = async (keyOf: (keys: Partitions["control"]["keys"]) => string) => {
      const counts = await Promise.all(partitions.all.map(({ redis: at, keys }) => at.get(keyOf(keys))));
      return counts.reduce((sum, count) => sum + Number(count), 0);
    };
    for (const sum of [
      await sumOf((keys) => keys.resultsBytes),
      await sumOf((keys) => keys.keptBytes("/a")),
    ]) {
      expect(sum).toBeGreaterThan(bytes_max / 2);
      expect(sum).toBeLessThanOrEqual(bytes_max);
    }
  });
});
