import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { INJECTED, useConsumers } from "../../fixtures/consumers.ts";
import { aCall } from "../../fixtures/producer.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

/** A consumer with 10 slots of 2,000 bytes each, and 20,000 bytes for larger calls. */
const ROOM = { slots: 10, bodyBudgetBytes: 40_000 };

const redis = useRedis();
beforeEach(async () => {
  await redis.client.flushall();
});
const consumers = useConsumers(redis);

async function add(job_id: number, storedBytes: number): Promise<string> {
  const rest = JSON.stringify(aCall({ body: Buffer.alloc(0) })).length;
  const call = aCall({ job_id, body: Buffer.alloc(Math.floor(((storedBytes - rest) * 3) / 4)) });
  await createEnqueue(partitionOf(redis.client))(call);
  return call.id;
}

/** Deliveries that run until the test ends them, with the count of those that ran at once. */
function createHeldCalls() {
  const inFlight = new Map<string, () => void>();
  let most = 0;
  return {
    inFlight,
    get most() {
      return most;
    },
    deliver: ({ id }: { id: string }) =>
      new Promise<typeof INJECTED>((resolve) => {
        inFlight.set(id, () => {
          inFlight.delete(id);
          resolve(INJECTED);
        });
        most = Math.max(most, inFlight.size);
      }),
    endAll(): void {
      for (const end of [...inFlight.values()]) end();
    },
  };
}

test("large calls in flight never exceed the memory budget, and small calls wait for none of them", async () => {
  const held = createHeldCalls();
  for (const job of [1, 2, 3]) for (let i = 0; i < 3; i++) await add(job, 9000);
  const consumer = await consumers.start({ ...ROOM, deliver: held.deliver });
  await eventually("two are in flight", () => held.inFlight.size === 2);
  const small = [await add(4, 1500), await add(5, 1500)];
  for (const id of small) await consumer.took(id);
  expect(held.inFlight.size).toBe(4);
  for (const id of small) held.inFlight.get(id)?.();
  await eventually("all were taken", () => {
    expect(held.inFlight.size).toBeLessThanOrEqual(2);
    held.endAll();
    return consumer.taken.length === 11;
  });
});

test("a call that is larger than the whole budget is taken when no other large call is in flight", async () => {
  const held = createHeldCalls();
  const first = await add(1, 9000);
  const consumer = await consumers.start({ ...ROOM, deliver: held.deliver });
  await consumer.took(first);
  const largest = await add(2, 100_000);
  const small = await add(3, 1500);
  await consumer.took(small);
  expect(consumer.taken).toEqual([first, small]);
  held.endAll();
  await consumer.took(largest);
});

test("a job with large calls lets the large calls of another job pass", async () => {
  const held = createHeldCalls();
  for (let i = 0; i < 20; i++) await add(1, 9000);
  const consumer = await consumers.start({ ...ROOM, deliver: held.deliver });
  await eventually("some are in flight", () => held.inFlight.size > 0);
  const other = await add(2, 15_000);
  await eventually("the other's is taken", () => {
    held.endAll();
    return consumer.taken.includes(other);
  });
  expect(consumer.taken.indexOf(other)).toBeLessThan(10);
});

onlyInLongRun(() => {
  test("a large call that exceeds one producer's budget is taken by another", async () => {
    const [busy, free] = [createHeldCalls(), createHeldCalls()];
    const first = await add(1, 18_000);
    const one = await consumers.start({ ...ROOM, deliver: busy.deliver });
    await one.took(first);
    const two = await consumers.start({ ...ROOM, deliver: free.deliver });
    const second = await add(2, 18_000);
    await two.took(second);
    expect(one.taken).toEqual([first]);
  });
});
