import { cpSync, readdirSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { markOf } from "../../../shared/call/results/answer.ts";
import { startRedis } from "../../../shared/dev/redis.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { openBackends } from "../../../shared/queue/backend.ts";
import { queueOf } from "../../../shared/queue/queue-name.ts";
import { connectForWork, type Redis } from "../../../shared/redis/connect.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";
import { LONG_RUN } from "../../support/long-run.ts";
import { claimPayment, makePayment } from "../../support/made-payment.ts";
import { contentsOf } from "../../support/redis-content.ts";
import { WORK } from "../../support/results.ts";
import { tempDir } from "../../support/temp-dir.ts";

/*
 * After a power loss, the append-only file may end in the middle of Redis' last write. Redis reads it up to the last
 * complete transaction, so each of our steps must be one transaction.
 */
const CUTS = LONG_RUN ? 8 : 3;
const TOKEN = "a token";
/** Token and network of the payments. */
const PAID_WITH = { network: "eip155:1", asset: "0x1" };

const redis = useOwnRedis(["--auto-aof-rewrite-percentage", "0"]);

function setUp() {
  const { partition } = redis;
  const [{ call }, { call: next }] = [makePayment(PAID_WITH), makePayment(PAID_WITH)];
  return {
    call,
    next,
    journal: new PaymentJournal(partition),
    enqueue: createEnqueue(partition),
    backend: openBackends(partition, WORK)(queueOf(call)),
  };
}
type World = ReturnType<typeof setUp>;

async function claimedAndAdded({ enqueue, call }: World): Promise<void> {
  await enqueue(call, { by: "a test", bodySha256: call.sha256, windowMs: 60_000 });
}

async function taken(world: World): Promise<void> {
  await claimedAndAdded(world);
  await world.backend.fetch(TOKEN, { bytes: undefined, alone: false });
  await world.enqueue(world.next);
}

/** Each entry first prepares the state, and then returns one step. */
const STEPS: Record<string, (world: World) => Promise<() => Promise<unknown>>> = {
  "a claim with its call": async (world) => () => claimedAndAdded(world),
  "a paid claim":
    async ({ journal }) =>
    () =>
      claimPayment(journal, PAID_WITH),
  "a settlement with its call": async ({ journal }) => {
    const payment = await journal.find(await claimPayment(journal, PAID_WITH));
    if (payment === undefined) throw new Error("the payment was not claimed");
    const { network, payer } = payment.terms;
    const settlement = { transaction: `0x${"ab".repeat(32)}`, network, payer, by: "chain" } as const;
    return () => journal.enqueueSettled(payment, { settlement, proven: true }, { dueInMs: 0 });
  },
  "an end with its result and the next take": async (world) => {
    await taken(world);
    const result = markOf(
      { status: 200, contentType: "text/plain", body: "x".repeat(500) },
      1000,
      Date.now(),
    );
    const ended = { fetchNext: { bytes: 1000 }, windowMs: 60_000, retried: false, result };
    return () => world.backend.injected(world.call.id, TOKEN, ended);
  },
};

test.each(Object.entries(STEPS))("%s is on disk completely or not at all", async (_, prepare) => {
  await redis.client.flushall();
  const step = await prepare(setUp());
  const [before, start] = [await everything(redis.client), sizeOf(redis.server.dir)];
  await step();
  const [after, end] = [await everything(redis.client), sizeOf(redis.server.dir)];
  expect(after).not.toEqual(before);
  const sizes = Array.from({ length: CUTS }, (_, i) => start + Math.floor(((end - start) * i) / CUTS));
  expect(await Promise.all(sizes.map(readUpTo))).toEqual(sizes.map(() => before));
  expect(await readUpTo(end)).toEqual(after);
});

/** Returns what a Redis finds in a file that is cut to this many bytes. */
async function readUpTo(bytes: number): Promise<Record<string, unknown>> {
  const dir = tempDir();
  cpSync(redis.server.dir, dir, { recursive: true });
  truncateSync(fileIn(dir), bytes);
  const server = await startRedis({ env: process.env, dir });
  const client = connectForWork({ url: new Secret(server.url) }, silentLogger);
  try {
    return await everything(client);
  } finally {
    client.disconnect();
    await server.stop();
  }
}

/** Returns the append-only file that grows. */
function fileIn(dir: string): string {
  const folder = join(dir, "appendonlydir");
  const name = readdirSync(folder).find((each) => each.endsWith(".incr.aof"));
  if (name === undefined) throw new Error(`${folder} has no file that grows`);
  return join(folder, name);
}

function sizeOf(dir: string): number {
  return statSync(fileIn(dir)).size;
}

async function everything(client: Redis): Promise<Record<string, unknown>> {
  return contentsOf(client, await client.keys("*"));
}
