import { beforeEach, describe, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { openEndpoints } from "../../../shared/queue/endpoints.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { openRegistry, sumOfDepths } from "../../../shared/queue/registry.ts";
import { openDelayed } from "../../../shared/queue/run-delayed.ts";
import { NO_POLL, useConsumers } from "../../fixtures/consumers.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { audited } from "../../support/audited.ts";
import { beforeEachScript } from "../../support/before-each-script.ts";
import { delayCalls } from "../../support/delay-calls.ts";
import { limitJob } from "../../support/limit-jobs.ts";
import { LONG_RUN, onlyInLongRun } from "../../support/long-run.ts";

const redis = useRedis();
const consumers = useConsumers(redis);
const QUEUE = "webhook/7/1";
const PATH = "/hooks/a";
const why = { at: 1, by: "otto", reason: "its runner is repaired" };
/** A retry after an hour, which is later than every other retry in these tests. */
const LATER = { kind: "retry", afterMs: 3_600_000, reason: "runner.failed: it did" } as const;

beforeEach(async () => {
  await redis.client.flushdb();
});

const delayed = () => openDelayed(redis.partition);
const add = (id: string, more: object = {}, heldAt?: string) =>
  createEnqueue(redis.partition)(aCall({ id, ...more }), undefined, "small", heldAt);
const depth = async () => sumOfDepths(await openRegistry(redis.partition).depths());
const inSet = (name: string, queue = QUEUE) => redis.client.zrange(keys.inQueue(queue, name), 0, "-1");
const waiting = async () => (await redis.client.lrange(keys.inQueue(QUEUE, "wait"), 0, -1)).toReversed();
const hooked = (before: (sent: number) => Promise<void>) => ({
  ...redis.partition,
  redis: beforeEachScript(redis.client, before),
});

async function delayMany(count: number): Promise<string[]> {
  for (let i = 0; i < count; i += 1) await add(`c_${String(i).padStart(3, "0")}`);
  return delayCalls(redis.partition);
}

test("the delayed calls of a job run at once, behind waiting calls, in the order of their due times, with their attempts", async () => {
  for (const id of ["c_1", "c_2", "c_3"]) await add(id);
  await add("c_paid", { origin: "x402" });
  await add("c_other", { job_id: 2 });
  await delayCalls(redis.partition);
  await delayCalls(redis.partition, "7/2");
  await add("c_new");
  const attempts = new Map<string, number>();
  const consumer = await consumers.start({
    slots: 1,
    pollMs: NO_POLL,
    deliver: ({ id, attempt }) => {
      attempts.set(id, attempt);
      return { kind: "injected", onRecorded() {} };
    },
  });
  await consumer.took("c_new");
  expect(await delayed().runAllOf("7/1", why)).toBe(4);
  await consumer.took("c_paid");
  await consumer.took("c_3");
  expect(consumer.taken.filter((id) => id !== "c_paid")).toEqual(["c_new", "c_1", "c_2", "c_3"]);
  expect([attempts.get("c_1"), attempts.get("c_paid"), attempts.get("c_new")]).toEqual([2, 2, 1]);
  expect(await inSet("delayed", "webhook/7/2")).toEqual(["c_other"]);
  expect(await audited(redis.client)).toMatchObject([
    { action: "run_delayed", job: "7/1", by: "otto", selection: "by name", reason: why.reason },
  ]);
});

test("held and failed calls stay, and without a delayed call nothing is changed or audited", async () => {
  await add("c_failed");
  const failing = await consumers.start({ deliver: () => ({ kind: "fail", reason: "runner.refused: 422" }) });
  await eventually("it failed", async () => (await depth()).failed === 1);
  await failing.close(1000);
  await openEndpoints(redis.partitions).set(PATH, "held", why);
  await add("c_held", {}, PATH);
  expect(await delayed().runAllOf("7/1", why)).toBe(0);
  expect(await delayed().call("c_held", QUEUE, why)).toBe(false);
  expect(await delayed().call("c_failed", QUEUE, why)).toBe(false);
  expect(await delayed().call("c_unknown", QUEUE, why)).toBe(false);
  expect(await depth()).toMatchObject({ waiting: 0, delayed: 0, held: 1, failed: 1 });
  expect((await audited(redis.client)).map(({ action }) => action)).toEqual(["hold"]);
});

test("one delayed call runs at once, and the others of its job stay delayed", async () => {
  await delayMany(3);
  const consumer = await consumers.start({ pollMs: NO_POLL });
  expect(await delayed().call("c_001", QUEUE, why)).toBe(true);
  await consumer.took("c_001");
  expect(await inSet("delayed")).toEqual(["c_000", "c_002"]);
  expect(consumer.taken).toEqual(["c_001"]);
  expect(await audited(redis.client)).toMatchObject([{ action: "run_now", call_id: "c_001", by: "otto" }]);
});

test("an interrupted run leaves the rest delayed, and the next run moves each of them once", async () => {
  const ids = await delayMany(250);
  const cut = hooked(async (sent) => {
    if (sent > 1) throw new Error("cut");
  });
  await expect(openDelayed(cut).runAllOf("7/1", why)).rejects.toThrow("cut");
  expect(await depth()).toMatchObject({ waiting: 100, delayed: 150 });
  expect((await audited(redis.client)).map(({ action }) => action)).toEqual(["run_delayed"]);
  expect(await delayed().runAllOf("7/1", why)).toBe(150);
  expect(await waiting()).toEqual(ids);
});

onlyInLongRun(() => {
  test("a call that fails again while others are moved is not run a second time", async () => {
    await delayMany(250);
    const consumer = await consumers.start({ pollMs: NO_POLL, deliver: () => LATER });
    const slowly = hooked(async (sent) => {
      const before = Math.min(250, (sent - 1) * 100);
      await eventually("they failed again", async () => consumer.taken.length >= before);
      await eventually("none is in flight", async () => (await depth()).active === 0);
    });
    expect(await openDelayed(slowly).runAllOf("7/1", why)).toBe(250);
    await eventually("all failed again", async () => (await depth()).delayed === 250);
    expect(consumer.taken.length).toBe(250);
  });
});

test("two simultaneous operators run each call once, while a producer takes them", async () => {
  const count = LONG_RUN ? 450 : 150;
  await delayMany(count);
  const consumer = await consumers.start({ pollMs: NO_POLL });
  const moved = await Promise.all([delayed().runAllOf("7/1", why), delayed().runAllOf("7/1", why)]);
  await eventually("all are taken", async () => consumer.taken.length >= count);
  expect(moved[0] + moved[1]).toBe(count);
  expect(new Set(consumer.taken).size).toBe(count);
  expect(await depth()).toMatchObject({ waiting: 0, delayed: 0, active: 0 });
});

test("a call that a producer takes at the same moment is in flight, and not in the queue a second time", async () => {
  await add("c_1");
  await delayCalls(redis.partition, "7/1", 1);
  const consumer = await consumers.start({ deliver: () => new Promise(() => {}) });
  await consumer.took("c_1");
  expect(await delayed().call("c_1", QUEUE, why)).toBe(false);
  expect(await delayed().runAllOf("7/1", why)).toBe(0);
  expect(await depth()).toMatchObject({ waiting: 0, delayed: 0, active: 1 });
});

describe("an operator or a limit that stops the job", () => {
  test("keeps the calls in the queue during a pause, until it ends", async () => {
    await delayMany(3);
    const consumer = await consumers.start({ pollMs: NO_POLL });
    const pausing = hooked(async () => {
      await openJobs(redis.partitions).pause("7/1", why);
    });
    expect(await openDelayed(pausing).runAllOf("7/1", why)).toBe(3);
    expect(await depth()).toMatchObject({ waiting: 3, delayed: 0 });
    expect(await redis.client.zcard(keys.wake)).toBe(0);
    expect(consumer.taken).toEqual([]);
    await openJobs(redis.partitions).resume("7/1", why);
    await consumer.took("c_002");
  });

  test("keeps the calls in the queue during a throttle, and they are taken when it ends", async () => {
    await delayMany(1);
    await openJobs(redis.partitions).throttle("7/1", 700);
    const consumer = await consumers.start({ pollMs: 100 });
    const from = performance.now();
    await delayed().runAllOf("7/1", why);
    await consumer.took("c_000");
    expect(performance.now() - from).toBeGreaterThan(400);
  });

  test("keeps the number of calls in flight within the job's limit", async () => {
    await delayMany(20);
    await limitJob(redis.partitions, "7/1", { concurrency: 2 });
    let [inHand, most] = [0, 0];
    let second = () => {};
    const both = new Promise<void>((resolve) => {
      second = resolve;
    });
    const consumer = await consumers.start({
      pollMs: NO_POLL,
      async deliver() {
        inHand += 1;
        most = Math.max(most, inHand);
        if (inHand === 2) second();
        await both;
        await new Promise((resolve) => setImmediate(resolve));
        inHand -= 1;
        return { kind: "injected", onRecorded() {} };
      },
    });
    await delayed().runAllOf("7/1", why);
    await eventually("all are taken", async () => consumer.taken.length === 20);
    expect(most).toBe(2);
  });

  onlyInLongRun(() => {
    test("holds later calls when the endpoint is held, but not calls that already wait", async () => {
      await delayMany(150);
      const holding = hooked(async (sent) => {
        if (sent !== 2) return;
        await openEndpoints(redis.partitions).set(PATH, "held", why);
        await add("c_held", {}, PATH);
      });
      expect(await openDelayed(holding).runAllOf("7/1", why)).toBe(150);
      expect(await depth()).toMatchObject({ waiting: 150, delayed: 0, held: 1 });
    });
  });
});

onlyInLongRun(() => {
  test("all calls with the same score are moved, as after many failures in one millisecond", async () => {
    const ids = await delayMany(250);
    const score = (Date.now() + 60_000) * 0x1000;
    for (const id of ids) await redis.client.zadd(keys.inQueue(QUEUE, "delayed"), score, id);
    expect(await delayed().runAllOf("7/1", why)).toBe(250);
    expect(new Set(await waiting())).toEqual(new Set(ids));
  });
});

test("a call whose log cannot be parsed runs with the others", async () => {
  const [id = ""] = await delayMany(3);
  await redis.client.set(keys.attempts(id), "no list");
  expect(await delayed().runAllOf("7/1", why)).toBe(3);
  expect(await redis.client.llen(keys.attempts("c_001"))).toBe(1);
});

test("delayed calls can be run in a full Redis too", async () => {
  await delayMany(3);
  await redis.client.config("SET", "maxmemory", 1);
  try {
    expect(await delayed().runAllOf("7/1", why)).toBe(3);
  } finally {
    await redis.client.config("SET", "maxmemory", 0);
  }
});
