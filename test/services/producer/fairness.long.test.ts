import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";

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

const connections = async (): Promise<number> =>
  String(await redis.client.client("LIST"))
    .trim()
    .split("\n").length;

/** How often Redis has run these commands in total, including those within scripts. */
async function calls(...commands: string[]): Promise<number> {
  const stats = await redis.client.info("commandstats");
  const counts = commands.map((name) =>
    Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/**
 * How many commands an idle producer sends, and how many reads its scripts make, within this number of polls. Each poll reads
 * once the queues with calls in flight.
 */
async function idle(polls: number) {
  const asked = () => calls("evalsha", "bzpopmin");
  const read = () => calls("exists", "hget", "zcount", "zscore");
  const before = { polls: await calls("smembers"), asked: await asked(), read: await read() };
  await eventually(`${polls} polls`, async () => (await calls("smembers")) - before.polls >= polls);
  return { asked: (await asked()) - before.asked, read: (await read()) - before.read };
}

test("a producer has as many connections, and sends an idle Redis as many commands, with 300 jobs as with 1", async () => {
  const { producer, saw } = producers.start({ inject: async () => {} });
  await producer.firstCheck;
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
