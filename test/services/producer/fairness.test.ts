import { expect, test } from "vitest";
import type { Inject } from "../../../services/producer/producer.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { jobKeyOf } from "../../../shared/job-call/job-ids.ts";
import { aCall, type TestProducer, useProducer } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

const HANGING = "7/1";
/** That of a producer that is told none. */
const SLOTS = 100;

const redis = useRedis();
const producers = useProducer({ redis });

async function inBatches<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<unknown>,
): Promise<void> {
  for (let at = 0; at < items.length; at += 50)
    await Promise.all(items.slice(at, at + 50).map((item) => work(item)));
}

const addMany = (count: number, jobOf: (i: number) => number): Promise<void> =>
  inBatches(
    Array.from({ length: count }, (_, i) => aCall({ job_id: jobOf(i) })),
    producers.add,
  );

const injections = ({ log }: TestProducer) => log.events.filter(({ event }) => event === "call.injected");

test("with 1,000 calls of a job that hangs before them, calls of another job are injected within a second on two producers", async () => {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const start = () => {
    const own = { now: 0, most: 0 };
    const inject: Inject = async ({ call }, hold) => {
      if (jobKeyOf(call) !== HANGING) return;
      own.now += 1;
      own.most = Math.max(own.most, own.now);
      await Promise.race([released, new Promise<void>((resolve) => hold.onLost(() => resolve()))]);
      own.now -= 1;
    };
    return { own, producer: producers.start({ inject, defaultConcurrency: true, lockMs: 20_000 }) };
  };
  await addMany(1000, () => 1);
  const both = [start(), start()] as const;
  await eventually("both are full of the hanging job", () => both.every(({ own }) => own.now >= SLOTS * 0.4));
  for (let i = 0; i < 100; i++) await producers.add(aCall({ job_id: 2 }));
  const injected = () => both.flatMap(({ producer }) => injections(producer));
  await eventually("all of the other job are injected", () => injected().length === 100);
  const waits = injected()
    .map(({ fields }) => Number(fields["endToEndMs"]))
    .toSorted((a, b) => a - b);
  expect(waits[98]).toBeLessThan(1000);
  for (const { own } of both) expect(own.most).toBeLessThanOrEqual(SLOTS / 2);
  release();
});

const connections = async (): Promise<number> =>
  String(await redis.client.client("LIST"))
    .trim()
    .split("\n").length;

/** How often Redis has run each of these, within scripts too. */
async function calls(...commands: string[]): Promise<number> {
  const stats = await redis.client.info("commandstats");
  const counts = commands.map((name) =>
    Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/** What an idle producer asks of Redis in so many polls, each of which reads the queues with calls in hand once. */
async function idle(polls: number) {
  const asked = () => calls("evalsha", "bzpopmin");
  const read = () => calls("exists", "hget", "zcount", "zscore");
  const before = { polls: await calls("smembers"), asked: await asked(), read: await read() };
  await eventually(`${polls} polls`, async () => (await calls("smembers")) - before.polls >= polls);
  return { asked: (await asked()) - before.asked, read: (await read()) - before.read };
}

onlyInLongRun(() => {
  test("a producer has as many connections, and asks an idle Redis as often, with 300 jobs as with 1", async () => {
    const { producer, saw } = producers.start({ inject: async () => {} });
    await producer.ready();
    await addMany(1, () => 1);
    await saw("call.injected", 1);
    const one = { connections: await connections(), ...(await idle(2)) };
    await addMany(300, (i) => i);
    await saw("call.injected", 301);
    expect(await redis.client.scard(keys.queues)).toBe(300);
    const many = { connections: await connections(), ...(await idle(2)) };
    expect(many.connections).toBe(one.connections);
    expect(many.asked).toBeLessThanOrEqual(one.asked + 3);
    expect(many.read, "a part of the registry").toBeLessThan(300 * 4);
  });
});
