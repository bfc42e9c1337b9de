import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { createPaymentJournal, type PaymentJournal } from "../../../../shared/payments/journal.ts";
import { createAdd } from "../../../../shared/queue/enqueue.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { QUICK_ROUND_MS, startX402, type TestX402, type TestX402Options } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { claimed, settled } from "../../../support/made-payment.ts";

/** Large: 400 KiB as stored. */
const BODY = Buffer.alloc(300 * 1024, "x");
const MINUTE_MS = 60_000;

const redis = useRedis();
const proxy = useRedisProxy(redis);
const devnet = useDevnet();
const ends = useEnds();
let journal: PaymentJournal;

beforeEach(() => {
  journal = createPaymentJournal(redis.partition);
  ends.defer(() => redis.client.flushdb());
});

/** Behind the proxy. These payments were made by no facilitator, so there are no books to check. */
async function gateway(options: Partial<TestX402Options> = {}): Promise<TestX402> {
  const urls = { redisUrl: proxy.url, directUrl: redis.url };
  const x402 = await startX402({ devnet, ...urls, roundMs: QUICK_ROUND_MS, ...options });
  ends.defer(() => x402.close());
  return x402;
}

const made = () => ({ network: devnet.network, asset: devnet.token, body: BODY });
const stateOf = async (id: string) => (await journal.look(id))?.state;
const eventsOf = ({ log }: TestX402) => log.events.map(({ event }) => event);

/** Redis' replies to each connection come at so many bytes a second. */
function slowReplies(bytesPerSecond: number): void {
  proxy.replyPauseMs = (bytes) => Math.floor((bytes * 1000) / bytesPerSecond);
}

test("large calls of many settled payments that are due at once are all queued, while small payments are bought", async () => {
  const { length } = await Promise.all(Array.from({ length: 16 }, () => settled(journal, made())));
  const ids = await redis.client.zrange(keys.payments, "0", "-1");
  expect(ids).toHaveLength(length);
  // All of them together take four seconds, and a connection for small writes waits a second and a half for a reply.
  slowReplies(1.6 * 2 ** 20);
  const x402 = await gateway({ enqueueTimeoutMs: 5000 }); // so that a busy machine may stand still for a moment
  const payer = await newPayer(devnet);
  const bought: number[] = [];
  await eventually("all are queued", async () => {
    const body = `small ${bought.length}`;
    bought.push((await x402.post(await x402.pay({ payer }), { body })).status);
    return (await Promise.all(ids.map(stateOf))).every((state) => state === "QUEUED");
  });
  expect(bought.length).toBeGreaterThan(2);
  expect(bought.filter((status) => status !== 202)).toEqual([]);
  expect(eventsOf(x402)).not.toContain("payment.reconcile_failed");
  expect(eventsOf(x402)).not.toContain("redis.silent");
  const calls = (await x402.waiting()).filter(({ bytes }) => bytes === BODY.length);
  expect(calls.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
});

test("the reconciler reads no body of a payment that is open, queued or ended", async () => {
  const longAgo = Date.now() - MINUTE_MS;
  const open = await claimed(journal, made(), longAgo);
  const [queued, ended] = [await settled(journal, made()), await settled(journal, made())];
  for (const id of [queued, ended]) {
    const call = await journal.readCall(id, "SETTLED", "small");
    if (call === undefined) throw new Error(`${id} has no call`);
    if (id === queued) await createAdd(redis.partition)(call);
    await journal.markQueued(id, { now: longAgo, dueAt: longAgo });
  }
  await redis.client.hset(keys.record(ended), "st", "INJECTED");
  let largest = 0;
  proxy.replyPauseMs = (bytes) => {
    largest = Math.max(largest, bytes);
    return 0;
  };
  const x402 = await gateway();
  const callsIn = (event: string) =>
    x402.log.events.flatMap((e) => (e.event === event ? [e.fields["callId"]] : []));
  await eventually("the open one is settled again", () => callsIn("payment.settled_again").includes(open));
  await eventually("the others are looked for on the chain", () =>
    [queued, ended].every((id) => callsIn("payment.vanished").includes(id)),
  );
  expect(eventsOf(x402)).not.toContain("payment.reconcile_failed");
  expect(largest).toBeGreaterThan(0);
  expect(largest).toBeLessThan(BODY.length / 8);
});

test("a large call that its queue has lost is added again", async () => {
  const id = await settled(journal, made());
  await journal.markQueued(id, { now: Date.now(), dueAt: 0 });
  const x402 = await gateway();
  await eventually("it waits", async () => (await x402.waiting()).length === 1);
  expect(await x402.waiting()).toMatchObject([{ id, bytes: BODY.length }]);
});

test("a large call that a later release or nobody can read is tried once in each look, and holds up no other", async () => {
  const [newer, broken] = [await settled(journal, made()), await settled(journal, made())];
  const fill = "x".repeat(BODY.length);
  await redis.client.hset(keys.payment(newer), "call", JSON.stringify({ v: 2, fill }));
  await redis.client.hset(keys.payment(broken), "call", `?${fill}`);
  const reads: string[] = [];
  proxy.onCommand = ([command = "", key = "", field]) => {
    if (command.toLowerCase() === "hget" && field === "call") reads.push(key);
    return undefined;
  };
  const x402 = await gateway();
  const other = await settled(journal, made());
  await eventually("the other is queued", async () => (await stateOf(other)) === "QUEUED");
  await eventually("both are put off", () =>
    ["payment.newer", "payment.reconcile_failed"].every((event) => eventsOf(x402).includes(event)),
  );
  const putOff = eventsOf(x402).filter((event) => /newer|reconcile_failed/.test(event)).length;
  expect(reads.filter((key) => key !== keys.payment(other))).toHaveLength(putOff);
  expect([await stateOf(newer), await stateOf(broken)]).toEqual(["SETTLED", "SETTLED"]);
});
