import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { INJECTED, useConsumers } from "../../fixtures/consumers.ts";
import { aCall } from "../../fixtures/producer.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

/** 10 slots with room for 2,000 bytes each, and 20,000 bytes for larger calls. */
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

/** Calls whose injections end when they are told to. */
function slowly() {
  const inHand = new Map<string, () => void>();
  let most = 0;
  return {
    inHand,
    get most() {
      return most;
    },
    deliver: ({ id }: { id: string }) =>
      new Promise<typeof INJECTED>((resolve) => {
        inHand.set(id, () => {
          inHand.delete(id);
          resolve(INJECTED);
        });
        most = Math.max(most, inHand.size);
      }),
    endAll(): void {
      for (const end of [...inHand.values()]) end();
    },
  };
}

test("of large calls no more are in hand than there is room for, and small ones wait for none of them", async () => {
  const hand = slowly();
  for (const job of [1, 2, 3]) for (let i = 0; i < 3; i++) await add(job, 9000);
  const consumer = await consumers.start({ ...ROOM, deliver: hand.deliver });
  await eventually("two are in hand", () => hand.inHand.size === 2);
  const small = [await add(4, 1500), await add(5, 1500)];
  for (const id of small) await consumer.took(id);
  expect(hand.inHand.size).toBe(4);
  for (const id of small) hand.inHand.get(id)?.();
  await eventually("all were taken", () => {
    expect(hand.inHand.size).toBeLessThanOrEqual(2);
    hand.endAll();
    return consumer.taken.length === 11;
  });
});

test("a call that is larger than all the room is taken when no other large one is in hand", async () => {
  const hand = slowly();
  const first = await add(1, 9000);
  const consumer = await consumers.start({ ...ROOM, deliver: hand.deliver });
  await consumer.took(first);
  const largest = await add(2, 100_000);
  const small = await add(3, 1500);
  await consumer.took(small);
  expect(consumer.taken).toEqual([first, small]);
  hand.endAll();
  await consumer.took(largest);
});

test("a job with large calls lets those of another job pass", async () => {
  const hand = slowly();
  for (let i = 0; i < 20; i++) await add(1, 9000);
  const consumer = await consumers.start({ ...ROOM, deliver: hand.deliver });
  await eventually("some are in hand", () => hand.inHand.size > 0);
  const other = await add(2, 15_000);
  await eventually("the other's is taken", () => {
    hand.endAll();
    return consumer.taken.includes(other);
  });
  expect(consumer.taken.indexOf(other)).toBeLessThan(10);
});

onlyInLongRun(() => {
  test("a large call for which one producer has no room goes to another", async () => {
    const [busy, free] = [slowly(), slowly()];
    const first = await add(1, 18_000);
    const one = await consumers.start({ ...ROOM, deliver: busy.deliver });
    await one.took(first);
    const two = await consumers.start({ ...ROOM, deliver: free.deliver });
    const second = await add(2, 18_000);
    await two.took(second);
    expect(one.taken).toEqual([first]);
  });
});
