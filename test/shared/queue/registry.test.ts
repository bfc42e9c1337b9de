import { beforeAll, expect, test } from "vitest";
import { createPoll } from "../../../services/producer/consumer/poll.ts";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import type { JobCall } from "../../../shared/call/job-call.ts";
import type { Origin } from "../../../shared/call/origin.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { createFailedCalls } from "../../../shared/queue/failed.ts";
import { isKnown } from "../../../shared/queue/queue-name.ts";
import { openRegistry } from "../../../shared/queue/registry.ts";
import { connectForWork } from "../../../shared/redis/connect.ts";
import { PREFIX } from "../../../shared/redis/keys.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { useConsumers } from "../../fixtures/consumers.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";

const QUEUE = "webhook/7/1";

const redis = useRedis();
const ends = useEnds();
const producers = useProducer({ redis });
const consumers = useConsumers(redis);
let registry: ReturnType<typeof openRegistry>;
beforeAll(() => {
  registry = openRegistry(partitionOf(redis.client));
});

/** A call of an origin that this release does not know, as a later release may add it. */
function ofUnknownOrigin(): JobCall {
  return { ...aCall(), origin: "schedule" as Origin };
}

const keysOf = async (queue: string) =>
  (await redis.client.keys(`${PREFIX}*`)).filter((key) => key.includes(queue));

const LISTS = ["wait", "paused", "active", "completed"] as const;
const SETS = ["delayed", "failed", "prioritized", "waiting-children"] as const;

test.each([...LISTS, ...SETS])(
  "a queue stays in the registry while its list `%s` has a call, and leaves it after that",
  async (list) => {
    const key = keys.inQueue(QUEUE, list);
    await redis.client.sadd(keys.queues, QUEUE);
    if ((LISTS as readonly string[]).includes(list)) await redis.client.rpush(key, "a call");
    else await redis.client.zadd(key, 1, "a call");
    expect(await registry.remove(QUEUE)).toBe(false);
    expect(await registry.names()).toEqual([QUEUE]);
    await redis.client.del(key);
    expect(await registry.remove(QUEUE)).toBe(true);
    expect(await registry.names()).toEqual([]);
  },
);

test("adds at the same time as removals from another connection lose no call", async () => {
  const other = connectForWork({ url: new Secret(redis.url) }, silentLogger);
  ends.defer(() => other.disconnect());
  const calls = Array.from({ length: 600 }, (_, i) => aCall({ job_id: i % 40 }));
  const add = createEnqueue(partitionOf(other));
  const removed = { yes: 0, no: 0 };
  const removeAll = () =>
    Promise.all(
      Array.from({ length: 40 }, async (_, job) => {
        removed[(await registry.remove(`webhook/7/${job}`)) ? "yes" : "no"] += 1;
      }),
    );
  // After the first 20 calls half of the queues are still empty, and from the third 20 on none is.
  for (let at = 0; at < calls.length; at += 20)
    await Promise.all([...calls.slice(at, at + 20).map((call) => add(call)), removeAll()]);
  expect(removed).toEqual({ yes: expect.any(Number), no: expect.any(Number) });
  expect(removed.yes).toBeGreaterThan(10);
  expect(removed.no).toBeGreaterThan(10);
  const found = await Promise.all(calls.map(({ id }) => registry.find(id)));
  expect(found).toEqual(calls.map(({ job_id }) => ({ queue: `webhook/7/${job_id}`, state: "waiting" })));
  const consumer = await consumers.start();
  await eventually("all are taken", () => consumer.taken.length === calls.length);
  expect(consumer.taken.toSorted()).toEqual(calls.map(({ id }) => id).toSorted());
});

test("an empty queue is removed with all its keys, and a queue with a failed call stays", async () => {
  const failing = aCall({ job_id: 2 });
  const consumer = await consumers.start({
    ...{ pollMs: 50, emptyMs: 0 },
    deliver: ({ id }) =>
      id === failing.id
        ? { kind: "fail", reason: "runner.failed: it did" }
        : { kind: "injected", onRecorded() {} },
  });
  const call = aCall();
  await producers.add(call);
  await producers.add(failing);
  await consumer.took(call.id);
  await consumer.took(failing.id);
  await eventually("one is left", async () => (await registry.names()).length === 1);
  expect(await registry.depths()).toMatchObject([{ queue: "webhook/7/2", failed: 1 }]);
  expect(await keysOf(QUEUE)).toEqual([]);
});

test("the idle time of an empty queue counts from its newest event, and is very long without one", async () => {
  const call = aCall();
  await producers.add(call);
  const consumer = await consumers.start();
  await consumer.took(call.id);
  const { look } = createPoll(partitionOf(redis.client));
  const idle = async () => (await look()).empty.find(({ queue }) => queue === QUEUE)?.idleMs;
  await eventually("it is empty", async () => (await idle()) !== undefined);
  expect(await idle()).toBeLessThan(60_000);
  await redis.client.del(keys.inQueue(QUEUE, "events"));
  expect(await idle()).toBeGreaterThan(Date.now() - 60_000);
});

test("a producer that is woken for a removed queue creates no key of it", async () => {
  await redis.client.zadd(keys.wake, 0, QUEUE);
  const consumer = await consumers.start();
  const call = aCall({ job_id: 2 });
  await producers.add(call);
  await consumer.took(call.id);
  expect(await keysOf(QUEUE)).toEqual([]);
});

test("a queue of an origin that only a later release knows is shown, but neither taken from nor removed", async () => {
  const later = ofUnknownOrigin();
  const queue = "schedule/7/1";
  await producers.add(later);
  const consumer = await consumers.start({ serves: isKnown, pollMs: 50, emptyMs: 0 });
  await eventually("it is passed on", async () => (await redis.client.zscore(keys.due, queue)) !== null);
  const known = aCall();
  await producers.add(known);
  await consumer.took(known.id);
  await eventually("the queue of the call has left", async () => (await registry.names()).length === 1);
  expect(consumer.taken).toEqual([known.id]);
  expect(await registry.depths()).toMatchObject([{ queue, waiting: 1 }]);
  expect(await registry.find(later.id)).toEqual({ queue, state: "waiting" });
});

test("a call is found in any queue and state", async () => {
  const calls = {
    waiting: aCall({ job_id: 1 }),
    delayed: aCall({ service_id: 8, job_id: 2 }),
    failed: aCall({ origin: "x402", job_id: 3 }),
    active: aCall({ service_id: 9 }),
  };
  const consumer = await consumers.start({
    serves: (queue) => queue !== QUEUE,
    deliver({ id }) {
      if (id === calls.delayed.id) return { kind: "postpone", afterMs: 60_000 };
      if (id === calls.failed.id) return { kind: "fail", reason: "runner.failed: it did" };
      return new Promise(() => {});
    },
  });
  for (const call of Object.values(calls)) await producers.add(call);
  for (const call of Object.values(calls).slice(1)) await consumer.took(call.id);
  for (const [state, { id, origin, service_id, job_id }] of Object.entries(calls)) {
    const queue = `${origin}/${service_id}/${job_id}`;
    await eventually(`${id} is ${state}`, async () => (await registry.find(id))?.state === state);
    expect(await registry.find(id)).toEqual({ queue, state });
  }
  expect(await registry.find("c_unknown")).toBeUndefined();
  expect((await registry.depths()).map(({ queue, ...held }) => [queue, held])).toMatchObject([
    [QUEUE, { waiting: 1, delayed: 0, held: 0, active: 0, failed: 0 }],
    ["webhook/8/2", { waiting: 0, delayed: 1, held: 0, active: 0, failed: 0 }],
    ["webhook/9/1", { waiting: 0, delayed: 0, held: 0, active: 1, failed: 0 }],
    ["x402/7/3", { waiting: 0, delayed: 0, held: 0, active: 0, failed: 1 }],
  ]);
  const failed = createFailedCalls(partitionOf(redis.client));
  expect(await failed.count({})).toBe(1);
  expect(await failed.find(calls.failed.id)).toMatchObject({ id: calls.failed.id, queue: "x402/7/3" });
  await consumer.kill();
});
