import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { markOf, type ResultMark } from "../../../../shared/call/results/answer.ts";
import { type Changes, createChanges } from "../../../../shared/call/results/changes.ts";
import type { Delivery } from "../../../../shared/call-search/deliver-result.ts";
import { PaymentJournal } from "../../../../shared/payments/journal.ts";
import type { Payment } from "../../../../shared/payments/payment.ts";
import { createRefunds, type RefundRow } from "../../../../shared/payments/refunds.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { openBackends, type QueueBackend } from "../../../../shared/queue/backend.ts";
import { createCallRecords, type FailedRef } from "../../../../shared/queue/call-record.ts";
import { createDiscard } from "../../../../shared/queue/discard.ts";
import type { Operate } from "../../../../shared/queue/operate.ts";
import { createReplay } from "../../../../shared/queue/replay.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { claimPayment, queuePayment } from "../../../support/made-payment.ts";
import { deliverResultOn, tellProgressOn, WORK } from "../../../support/results.ts";

const redis = useRedis();

const ANSWER: Delivery = {
  ...{ kind: "answer", status: 200, contentType: "text/plain", at: 1, by: "delivery" },
  body: Buffer.from("done"),
};

let changes: Changes;
let heard: string[];

beforeEach(async () => {
  await redis.client.flushdb();
  heard = [];
});
afterEach(() => changes.close());

/**
 * Watches these calls and, once the subscription exists, collects in `heard` the id of each call for which a change is
 * reported. The regular sweep is off unless a test sets its interval.
 */
async function watchAll(ids: readonly string[], sweepEveryMs = 3_600_000): Promise<void> {
  changes = createChanges(redis.partition, { sweepEveryMs });
  for (const id of ids) changes.watch(id, () => heard.push(id));
  await expect.poll(subscribers).toBe(1);
  // The new subscription causes one sweep, which reports a change of every call that was never read before.
  await expect.poll(() => new Set(heard).size).toBe(ids.length);
  heard.length = 0;
}

async function subscribers(): Promise<unknown> {
  return (await redis.client.pubsub("NUMSUB", keys.changes))[1];
}

/** The ids that were heard until now. It publishes a last message, before which all earlier ones arrive. */
async function heardNow(): Promise<string[]> {
  let isThere = false;
  const stop = changes.watch("the-end", () => {
    isThere = true;
  });
  await redis.client.publish(keys.changes, "the-end");
  await expect.poll(() => isThere).toBe(true);
  stop();
  return heard.splice(0);
}

describe("a change of a webhook's call is published once:", () => {
  const QUEUE = "webhook/7/1";
  const TOKEN = "worker:1";
  const operator = () => ({
    ...{ partition: redis.partition, clock: systemClock, log: silentLogger, by: "test" },
  });
  let backend: QueueBackend;
  let id: string;

  beforeEach(async () => {
    backend = openBackends(redis.partition, WORK)(QUEUE);
    const call = aCall({ keep_result: true });
    id = call.id;
    const claim = { by: "test", bodySha256: call.sha256, windowMs: 60_000 };
    await createEnqueue(redis.partition)(call, claim);
    await watchAll([id]);
  });

  const take = () => backend.fetch(TOKEN, { bytes: undefined, alone: false });

  async function fail(): Promise<void> {
    const failure = { keepsResult: false, code: "runner.failed" };
    await createCallRecords(redis.partition).failed({ id, queue: QUEUE }, Date.now(), failure);
    const job = { id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await backend.moveToFailed(job, "runner.failed", false, TOKEN, false);
  }

  async function operate(by: Operate): Promise<void> {
    const failedAt = Number(await redis.client.zscore(keys.inQueue(QUEUE, "failed"), id));
    const failed: FailedRef = { id, queue: QUEUE, failedAt };
    expect(await by(failed as never, { selection: "test", reason: "test" })).toBe("done");
  }

  test.each<[string, ResultMark | undefined]>([
    ["with a result", markOf({ status: 200, body: "done" }, 1000, 1)],
    ["with a result that the runner will deliver", { known: "awaited" }],
    ["without one", undefined],
  ])("its good end %s", async (_name, result) => {
    await take();
    const options = { fetchNext: undefined, windowMs: 60_000, retried: false, result };
    await backend.injected(id, TOKEN, options);
    expect(await heardNow()).toEqual([id]);
  });

  test("its failure, its replay, and its discard after another failure", async () => {
    await take();
    await fail();
    expect(await heardNow()).toEqual([id]);
    await operate(createReplay(operator()));
    expect(await heardNow()).toEqual([id]);
    await take();
    await fail();
    expect(await heardNow()).toEqual([id]);
    await operate(createDiscard(operator()));
    expect(await heardNow()).toEqual([id]);
  });

  test("a producer takes it after a failure", async () => {
    await redis.client.hset(keys.record(id), "st", "FAILED");
    await take();
    expect(await heardNow()).toEqual([id]);
  });

  test("its progress and its delivery", async () => {
    const deliver = deliverResultOn(redis.partition);
    await tellProgressOn(redis.partition)(id, { at: 1, json: "{}" });
    expect(await heardNow()).toEqual([id]);
    await deliver(id, ANSWER);
    expect(await heardNow()).toEqual([id]);
    await deliver(id, ANSWER);
    expect(await heardNow(), "the same again changes nothing").toEqual([]);
  });
});

describe("a change of a payment is published once:", () => {
  const TERMS = { network: "eip155:1", asset: `0x${"a".repeat(40)}` };
  const journal = () => new PaymentJournal(redis.partition);

  async function found(id: string): Promise<Payment> {
    const payment = await journal().find(id);
    if (payment === undefined) throw new Error(`${id} is not there`);
    return payment;
  }

  test("its settlement, its end as void, and its review", async () => {
    const ids = [];
    for (let i = 0; i < 3; i++) ids.push(await claimPayment(journal(), TERMS));
    const [settled = "", unpaid = "", odd = ""] = ids;
    await watchAll(ids);
    const payment = await found(settled);
    const { network, payer } = payment.terms;
    const settlement = { transaction: `0x${"b".repeat(64)}`, network, payer, by: "facilitator" } as const;
    await journal().enqueueSettled(payment, { settlement, proven: true }, { dueInMs: 0 });
    await journal().markVoid(await found(unpaid), { reason: "it expired" }, { now: Date.now() });
    await journal().markForReview(odd, "the node lacks logs");
    expect(await heardNow()).toEqual(ids);
  });

  test("its refund is exported, done, or withdrawn because the call ran after all", async () => {
    const [back, ran] = [
      await queuePayment(journal(), TERMS, true),
      await queuePayment(journal(), TERMS, true),
    ];
    for (const id of [back, ran]) await redis.client.hset(keys.record(id), "st", "DISCARDED");
    await watchAll([back, ran]);
    const refunds = createRefunds(redis.partition);
    const cases = [];
    for (const id of [back, ran]) cases.push({ payment: await found(id), row: aRow(id) });
    const made = { id: "r1", at: 1, by: "test", network: TERMS.network, block: 1n, effectUnknown: true };
    const line = { at: 1, action: "refund", by: "test", selection: "a test" } as const;
    const closing = { ...line, at: 2, action: "close_refund", callId: back } as const;
    const withdrawing = { ...line, at: 3, action: "withdraw", callId: ran } as const;
    await refunds.export({ ...made, cases, lineOf: (callId) => ({ ...line, callId }) });
    expect(await heardNow()).toEqual([back, ran]);
    const transfer = { transaction: `0x${"c".repeat(64)}`, position: 1, block: 2 };
    expect(await refunds.close(await found(back), transfer as never, closing)).toBe("closed");
    expect(await heardNow()).toEqual([back]);
    await redis.client.hset(keys.record(ran), "late", 1);
    expect(await refunds.withdraw(await found(ran), withdrawing)).toBe(true);
    expect(await heardNow()).toEqual([ran]);
  });
});

function aRow(call: string): RefundRow {
  return {
    call,
    asset: `0x${"a".repeat(40)}`,
    symbol: "USDC",
    decimals: 6,
    payer: `0x${"1".repeat(40)}`,
    amount: "1",
  };
}

test("the calls that end in one script are published in one message", async () => {
  const calls = Array.from({ length: 10 }, () => aCall());
  const enqueue = createEnqueue(redis.partition);
  await Promise.all(calls.map((call) => enqueue(call)));
  const listener = redis.client.duplicate();
  const messages: string[] = [];
  listener.on("message", (_channel: string, text: string) => messages.push(text));
  await listener.subscribe(keys.changes);
  await watchAll(calls.map(({ id }) => id));
  const backend = openBackends(redis.partition, WORK)("webhook/7/1");
  for (const { id } of calls) await backend.fetch(`worker:${id}`, { bytes: undefined, alone: false });
  const end = { fetchNext: undefined, windowMs: 60_000, retried: false, result: undefined };
  await Promise.all(calls.map(({ id }) => backend.injected(id, `worker:${id}`, end)));
  await expect.poll(() => heard.length).toBe(10);
  expect(new Set(heard)).toEqual(new Set(calls.map(({ id }) => id)));
  expect(messages).toHaveLength(1);
  listener.disconnect();
});

test("a change whose message was lost with the connection is found as soon as there is another connection", async () => {
  const deliver = deliverResultOn(redis.partition);
  const [changed = "", same = ""] = [aCall().id, aCall().id];
  for (const id of [changed, same])
    await redis.client.hset(keys.record(id), { st: "INJECTED", rs: "awaited" });
  await watchAll([changed, same]);
  const killed = redis.client.call("CLIENT", "KILL", "TYPE", "pubsub");
  await Promise.all([killed, deliver(changed, ANSWER)]);
  await expect.poll(() => heard).toEqual([changed]);
  await expect.poll(subscribers).toBe(1);
  await deliver(same, ANSWER);
  await expect.poll(() => heard).toEqual([changed, same]);
});

test("a change without a message is found by the check of all watched calls", async () => {
  const id = aCall().id;
  await redis.client.hset(keys.record(id), { st: "QUEUED", at: 1 });
  await watchAll([id], 50);
  await redis.client.hset(keys.record(id), { st: "FAILED", at: 2 });
  await expect.poll(() => heard).toEqual([id]);
  await redis.client.set(keys.progress(id), '{"at":3,"json":"{}"}');
  await expect.poll(() => heard).toEqual([id, id]);
  await redis.client.set(keys.result(id), '{"by":"delivery","at":4}\n');
  await expect.poll(() => heard).toEqual([id, id, id]);
});

test("10,000 calls are checked with 100 commands, one after another, and unchanged calls notify no watcher", async () => {
  const ids = Array.from({ length: 10_000 }, (_, i) => `c_${i}`);
  const scripts = async () => {
    const stats = String(await redis.client.info("commandstats"));
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  };
  await watchAll(ids);
  const before = await scripts();
  await redis.client.call("CLIENT", "KILL", "TYPE", "pubsub");
  await expect.poll(subscribers).toBe(1);
  await expect.poll(scripts).toBe(before + 100);
  expect(await heardNow()).toEqual([]);
});

test("a watcher that has stopped is not notified, and other watchers of the same call are", async () => {
  const id = "c_1";
  changes = createChanges(redis.partition);
  const notified = [0, 0];
  const stops = notified.map((_, i) =>
    changes.watch(id, () => {
      notified[i] = (notified[i] ?? 0) + 1;
    }),
  );
  await expect.poll(() => notified).toEqual([1, 1]);
  stops[0]?.();
  await redis.client.publish(keys.changes, id);
  await expect.poll(() => notified).toEqual([1, 2]);
  stops[1]?.();
  await heardNow();
  await redis.client.publish(keys.changes, id);
  await heardNow();
  expect(notified).toEqual([1, 2]);
});

test("a gateway without watchers has no connection for changes, and one connection serves all watchers", async () => {
  const connections = async () =>
    String(await redis.client.client("LIST"))
      .trim()
      .split("\n").length;
  changes = createChanges(redis.partition);
  expect(await connections()).toBe(1);
  for (let i = 0; i < 100; i++) changes.watch(`c_${i}`, () => {});
  await expect.poll(subscribers).toBe(1);
  expect(await connections()).toBe(2);
});
