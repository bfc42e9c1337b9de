import { beforeAll, expect, test } from "vitest";
import type { Taken } from "../../../services/producer/consumer/taken.ts";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { createCallRecords } from "../../../shared/queue/call-record.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { createReplay } from "../../../shared/queue/replay.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { INJECTED, NO_POLL, type TestConsumer, useConsumers } from "../../fixtures/consumers.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { startRedisProxy, useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { limitJobs } from "../../support/limit-jobs.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";

const QUEUE = "webhook/7/1";
const JOB = "7/1";
/** Long enough for a poll on a slow machine. A test that waits this long at most ends at once if a producer was woken. */
const SOON_MS = 10_000;

const redis = useRedis();
const proxy = useRedisProxy(redis);
/** Servers that are closed after the consumers: a consumer without its proxy could not close. */
const ends = useEnds();
const producers = useProducer({ redis });
const consumers = useConsumers(redis);
let jobs: ReturnType<typeof openJobs>;
beforeAll(() => {
  jobs = openJobs(redis.partitions);
});

async function add(fields: Parameters<typeof aCall>[0] = {}): Promise<string> {
  const call = aCall(fields);
  await producers.add(call);
  return call.id;
}

/** Removes these queues from the registry, so that a scan no longer finds them and only a wake-up leads a consumer to them. */
const hide = (...queues: string[]) => redis.client.srem(keys.queues, ...queues);

const untilTaken = (by: TestConsumer, id: string) =>
  eventually(`${id} is taken`, () => by.taken.includes(id), SOON_MS);

/** Starts two consumers. The one that takes a call first handles it with `deliverFirst`. The other one ends every call as injected. */
async function startTwo(
  deliverFirst: (taken: Taken, by: TestConsumer) => ReturnType<Deliver>,
  options: Options = {},
) {
  const both: TestConsumer[] = [];
  let killed: TestConsumer | undefined;
  const deliver: Deliver = (taken, by) => {
    if (killed !== undefined && killed !== by) return INJECTED;
    killed = by;
    return deliverFirst(taken, by);
  };
  both.push(await consumers.start({ ...options, deliver }), await consumers.start({ ...options, deliver }));
  return {
    /** Kills the consumer that took a call first, and resolves with the other one. */
    async killTheFirst(): Promise<TestConsumer> {
      const dead = await eventually("one of them takes a call", () => killed, SOON_MS);
      await dead.kill();
      return both.find((each) => each !== dead) as TestConsumer;
    },
  };
}

type Options = NonNullable<Parameters<typeof consumers.start>[0]>;
type Deliver = NonNullable<Options["deliver"]>;

const inQueue = async (state: "delayed" | "failed" | "wait", count = 1) =>
  eventually(`${count} ${state}`, async () => (await producers.queues.countIn(state)) === count);

const never = () => new Promise<never>(() => {});

test("an added call wakes the remaining producer", async () => {
  const dead = await consumers.start({ pollMs: NO_POLL });
  const left = await consumers.start({ pollMs: NO_POLL });
  await dead.kill();
  await untilTaken(left, await add());
});

test("a worker learns of many queues in few commands, and leaves queues to others if it has no slot", async () => {
  const ids: string[] = [];
  for (let job_id = 1; job_id <= 48; job_id++) ids.push(await add({ job_id }));
  await hide(...(await redis.client.smembers(keys.queues)));
  await redis.client.config("RESETSTAT");
  const full = await consumers.start({ pollMs: NO_POLL, slots: 32, deliver: () => never() });
  await eventually("its slots are full", () => full.taken.length === 32, SOON_MS);
  const stats = await redis.client.info("commandstats");
  expect(Number(/cmdstat_bzpopmin:calls=(\d+)/.exec(stats)?.[1])).toBeLessThan(16);
  const other = await consumers.start({ pollMs: NO_POLL, slots: 48 });
  for (const id of ids) if (!full.taken.includes(id)) await untilTaken(other, id);
  await full.kill(); // before the proxies close, because its calls never end
});

test("a replayed call wakes the remaining producer", async () => {
  const dead = await consumers.start({ deliver: () => ({ kind: "fail", reason: "runner.failed: it did" }) });
  const id = await add();
  await inQueue("failed");
  const left = await consumers.start({ pollMs: NO_POLL });
  await dead.kill();
  const replay = createReplay({
    partition: partitionOf(redis.client),
    clock: systemClock,
    log: silentLogger,
    by: "a test",
  });
  const failedAt = Number(await redis.client.zscore(keys.inQueue(QUEUE, "failed"), id));
  expect(await replay({ id, queue: QUEUE, failedAt }, { selection: "by test" })).toBe("done");
  await untilTaken(left, id);
});

test("the calls of a resumed job wake the remaining producer, in all its queues", async () => {
  await jobs.pause(JOB, { at: Date.now(), by: "a test", reason: "" });
  const ids = [await add(), await add({ origin: "x402" })];
  const dead = await consumers.start({ pollMs: NO_POLL });
  const left = await consumers.start({ pollMs: NO_POLL });
  await eventually("both queues were found closed", async () => (await redis.client.zcard(keys.wake)) === 0);
  await dead.kill();
  expect(left.taken).toEqual([]);
  expect(await jobs.resume(JOB, { at: Date.now(), by: "a test" })).toMatchObject({ changed: true });
  for (const id of ids) await untilTaken(left, id);
});

test("a delay that a killed producer has set wakes the remaining one when the call is due", async () => {
  const two = await startTwo(() => ({ kind: "retry", afterMs: 700, reason: "runner.failed: it did" }));
  const id = await add();
  await hide(QUEUE);
  await eventually(
    "it is delayed",
    async () => (await redis.client.zcard(keys.inQueue(QUEUE, "delayed"))) === 1,
  );
  const left = await two.killTheFirst();
  await untilTaken(left, id);
});

test("a slot that a job's concurrency frees wakes another producer for the job's queue of another origin", async () => {
  await limitJobs(redis.partitions, new Map([[JOB, { concurrency: 1 }]]));
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const serves = (origin: string) => (queue: string) => queue.startsWith(origin);
  const dead = await consumers.start({
    ...{ pollMs: NO_POLL, serves: serves("webhook") },
    deliver: () => ended.then(() => INJECTED),
  });
  await dead.took(await add());
  const left = await consumers.start({ serves: serves("x402") });
  const id = await add({ origin: "x402" });
  await hide(QUEUE, `x402/${JOB}`);
  await eventually("no consumer may take it", async () => (await redis.client.zcard(keys.wake)) === 0);
  expect(left.taken).toEqual([]);
  end();
  await eventually(
    "it is free",
    async () => (await redis.client.exists(keys.inQueue(QUEUE, "active"))) === 0,
  );
  await dead.kill();
  await untilTaken(left, id);
});

test("a freed slot wakes the producer for a call whose delay has ended meanwhile", async () => {
  await limitJobs(redis.partitions, new Map([[JOB, { concurrency: 1 }]]));
  const [delayed, inFlight] = [aCall(), aCall()];
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const later = (afterMs: number) => ({ kind: "retry", afterMs, reason: "runner.failed: it did" }) as const;
  const consumer = await consumers.start({
    pollMs: NO_POLL,
    async deliver({ id, attempt }) {
      if (attempt > 1) return INJECTED;
      if (id === delayed.id) return later(200);
      await ended;
      return later(3_600_000);
    },
  });
  await producers.add(delayed);
  await inQueue("delayed");
  await producers.add(inFlight);
  await consumer.took(inFlight.id);
  const due = async () => Number(await redis.client.zscore(keys.due, QUEUE));
  await eventually("the delay has ended, and no consumer may take it", async () => (await due()) === 0);
  expect(consumer.taken).toEqual([delayed.id, inFlight.id]);
  end();
  await eventually("it is taken", () => consumer.taken.length === 3, SOON_MS);
  expect(consumer.taken.at(-1)).toBe(delayed.id);
});

onlyInLongRun(() => {
  test("delays that end cause no scan of the registry, however many they are", async () => {
    const consumer = await consumers.start({
      ...{ pollMs: NO_POLL, slots: 100 },
      deliver: ({ attempt }) =>
        attempt < 4
          ? { kind: "retry", afterMs: 1 + Math.random() * 200, reason: "runner.failed: it did" }
          : INJECTED,
    });
    const scans = await callsOf("sscan");
    for (let job = 1; job <= 50; job++) await add({ job_id: job });
    await eventually("all are injected", () => consumer.taken.length === 200);
    expect(await callsOf("sscan")).toBe(scans);
  });
});

test("limits are set again after Redis has lost its data", async () => {
  const limits = new Map([[JOB, { concurrency: 7 }]]);
  await consumers.start({ pollMs: 50, prepare: () => limitJobs(redis.partitions, limits) });
  const isSet = async () => (await redis.client.hget(keys.job(JOB), "concurrency")) === "7";
  expect(await isSet()).toBe(true);
  await redis.client.flushall();
  await eventually("they are set again", isSet);
});

const TAKE = "the take of a call";

test.each([TAKE, "the end of a call, which takes the next"])(
  "a call that Redis gave to a producer in a lost reply is taken again at once: %s",
  async (what) => {
    const recorded: string[] = [];
    const consumer = await consumers.start({
      ...{ redisUrl: proxy.url, lockMs: 60_000, slots: 1 },
      deliver: ({ id }) => ({ kind: "injected", onRecorded: () => void recorded.push(id) }),
    });
    const first = await add();
    await eventually("Redis knows the scripts", () => recorded.length === 1);
    const ids = [aCall(), aCall(), aCall()].map((call) => producers.add(call).then(() => call.id));
    let isLost = false;
    proxy.onCommand = (words) => {
      if (isLost || !words.includes(QUEUE) || !/^eval/i.test(words[0] ?? "")) return undefined;
      // Only the end of a call has the call's id among its arguments.
      if (words.some((word) => word.startsWith("c_")) !== (what !== TAKE)) return undefined;
      isLost = true;
      return { kind: "lose-reply" };
    };
    await eventually("all are injected", () => recorded.length === 4, 3 * SOON_MS);
    expect(isLost).toBe(true);
    const all = [first, ...(await Promise.all(ids))].toSorted();
    expect(recorded.toSorted()).toEqual(all);
    expect(consumer.taken.toSorted()).toEqual(all);
  },
);

test("the slot of a call that is taken back from a killed producer wakes the remaining one, for all queues of the job", async () => {
  await limitJobs(redis.partitions, new Map([[JOB, { concurrency: 1 }]]));
  const two = await startTwo(never);
  const first = await add();
  const ids = [first, await add(), await add({ origin: "x402" })];
  await hide(QUEUE, `x402/${JOB}`);
  const left = await two.killTheFirst();
  for (const id of ids) await untilTaken(left, id);
  expect(left.taken.toSorted()).toEqual(ids.toSorted());
});

test("the end of a rate's period wakes the remaining producer", async () => {
  await limitJobs(redis.partitions, new Map([[JOB, { rate: { max: 1, periodMs: 700 } }]]));
  const two = await startTwo(() => INJECTED);
  const ids = [await add(), await add()];
  await hide(QUEUE);
  const left = await two.killTheFirst();
  await eventually("it takes one", () => left.taken.length > 0, SOON_MS);
  expect(await redis.client.llen(keys.inQueue(QUEUE, "wait"))).toBe(0);
  expect(ids).toEqual(expect.arrayContaining(left.taken));
  expect(left.taken).toHaveLength(1);
});

test("the end of a throttle wakes the remaining producer", async () => {
  const two = await startTwo(async () => {
    await jobs.throttle(JOB, 700);
    return { kind: "postpone", afterMs: 100 };
  });
  const id = await add();
  await hide(QUEUE);
  await eventually(
    "it is delayed",
    async () => (await redis.client.zcard(keys.inQueue(QUEUE, "delayed"))) === 1,
  );
  const throttledUntil = Number(await redis.client.hget(keys.job(JOB), "throttled"));
  const left = await two.killTheFirst();
  await untilTaken(left, id);
  expect(Date.now()).toBeGreaterThanOrEqual(throttledUntil);
});

test("a call that a killed producer had in flight is taken back by the remaining one", async () => {
  const two = await startTwo(never, { slots: 1 });
  const ids = [await add(), await add()];
  await hide(QUEUE);
  const left = await two.killTheFirst();
  for (const id of ids) await untilTaken(left, id);
  expect(left.taken).toHaveLength(2);
  const takenBack = left.log.events.filter(({ event }) => event === "call.lease_expired");
  expect(takenBack).toHaveLength(1);
});

test("a producer finds a waiting call and a delayed call without a wake-up", async () => {
  const left = await consumers.start({ pollMs: 200 });
  const [waits, delayed] = [aCall(), aCall()];
  await producers.queues.addStored(waits, waits);
  await untilTaken(left, waits.id);
  await producers.queues.of(QUEUE).add("call", delayed, { jobId: delayed.id, delay: 100 });
  expect(await redis.client.zcard(keys.due)).toBe(0);
  await untilTaken(left, delayed.id);
});

test("a call that comes while a fetch of its queue finds none is taken, even if the fetch is answered later", async () => {
  let fetched = () => {};
  let isLate = false;
  const until = new Promise<void>((resolve) => {
    fetched = resolve;
  });
  proxy.onCommand = (words) => {
    if (isLate || !words.includes(QUEUE) || /^bzpopmin$/i.test(words[0] ?? "")) return undefined;
    isLate = true;
    return { kind: "late-reply", until };
  };
  const consumer = await consumers.start({ redisUrl: proxy.url, pollMs: NO_POLL });
  await redis.client.zadd(keys.wake, 0, QUEUE);
  await eventually("an empty queue is fetched from", () => isLate);
  const id = await add();
  await eventually("the consumer is woken", async () => (await redis.client.zcard(keys.wake)) === 0);
  fetched();
  await untilTaken(consumer, id);
});

onlyInLongRun(() => {
  test("a producer takes a call at once, even if 200 queues that it may not take from wake it repeatedly", async () => {
    const isClosed = (job: string) => job !== JOB;
    const consumer = await consumers.start({ isClosed });
    for (let job = 2; job <= 201; job++) await add({ job_id: job });
    const id = await add();
    await eventually("it is taken", () => consumer.taken.includes(id), 4000);
    expect(consumer.taken).toEqual([id]);
  });

  test("a producer that may not take from a queue checks it some times a second, not as often as it can", async () => {
    const consumer = await consumers.start({ isClosed: () => true });
    for (let i = 0; i < 20; i++) await add();
    const before = await callsOf("bzpopmin");
    const polled = async () => (await redis.client.zscore(keys.due, QUEUE)) ?? "";
    for (let round = 0, seen = await polled(); round < 2; round++) {
      await eventually("it is due again", async () => (await polled()) !== seen && (await polled()) !== "");
      seen = await polled();
    }
    expect(consumer.taken).toEqual([]);
    expect((await callsOf("bzpopmin")) - before).toBeLessThan(100);
  });
});

async function callsOf(command: string): Promise<number> {
  const stats = await redis.client.info("commandstats");
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

test.each(
  sample([
    ["with a concurrency of 1", { concurrency: 1 }],
    ["without limits", {}],
  ]),
)("a job %s takes calls of its other origin, however many wait in the first", async (_, limits) => {
  await limitJobs(redis.partitions, new Map([[JOB, limits]]));
  const first = await Promise.all(Array.from({ length: 200 }, () => add()));
  const consumer = await consumers.start({
    slots: 4,
    deliver: () => new Promise((resolve) => setImmediate(() => resolve(INJECTED))),
  });
  await consumer.took(first[20] as string);
  const id = await add({ origin: "x402" });
  await untilTaken(consumer, id);
  expect(consumer.taken.indexOf(id)).toBeLessThan(180);
});

/**
 * Lets `command - 1` commands of the consumer pass, loses the next one or its reply, and expects every call to be
 * injected.
 */
async function breakAt(command: number, kind: "lose-command" | "lose-reply"): Promise<void> {
  const prefix = `{broken-${kind}-${command}}`;
  const broken = await startRedisProxy(redis.url);
  ends.defer(() => broken.close());
  const delivered: string[] = [];
  let passed = 0;
  broken.onCommand = (words) => {
    if (/^(info|client|hello|select)$/i.test(words[0] ?? "")) return undefined;
    passed += 1;
    return passed === command ? { kind } : undefined;
  };
  const partition = partitionOf(redis.client, prefix);
  const calls = [aCall(), aCall(), aCall({ origin: "x402" })];
  const started = consumers.start({
    ...{ redisUrl: broken.url, prefix, lockMs: 500 },
    deliver({ id }) {
      if (delivered.includes(id)) return INJECTED;
      delivered.push(id);
      return id === calls[1]?.id ? { kind: "retry", afterMs: 1, reason: "runner.failed: it did" } : INJECTED;
    },
  });
  await started.catch(() => {});
  for (const call of calls) await createEnqueue(partition)(call);
  const records = createCallRecords(partition);
  for (const { id } of calls) {
    await eventually(
      `${id} is injected though ${kind} ${command}`,
      async () => (await records.state(id)) === "INJECTED",
    );
  }
}

test.each(sample(["lose-command", "lose-reply"] as const))(
  "a connection that breaks at any command loses no call: %s",
  async (kind) => {
    const commands = Array.from({ length: 14 }, (_, at) => at + 1);
    await Promise.all(sample(commands, 7).map((command) => breakAt(command, kind)));
  },
);

test("a producer continues with a Redis that was emptied and has forgotten its scripts", async () => {
  const consumer = await consumers.start({ pollMs: NO_POLL });
  await untilTaken(consumer, await add());
  await redis.client.flushall();
  await redis.client.script("FLUSH");
  await untilTaken(consumer, await add());
});
