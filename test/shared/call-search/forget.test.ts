import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { callbackId } from "../../../shared/call/callback.ts";
import type { JobCall } from "../../../shared/call/job-call.ts";
import { markOf, type ResultMark } from "../../../shared/call/results/answer.ts";
import { createResults, type Results } from "../../../shared/call/results/store.ts";
import type { DeliverResult, Delivery } from "../../../shared/call-search/deliver-result.ts";
import { createForget, type Forget } from "../../../shared/call-search/forget.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { openBackends, type QueueBackend } from "../../../shared/queue/backend.ts";
import { type CallRecords, createCallRecords, type FailedRef } from "../../../shared/queue/call-record.ts";
import { PREPARED_FIELD, prepareCallback } from "../../../shared/queue/callbacks.ts";
import { callbackQueueOf } from "../../../shared/queue/queue-name.ts";
import { createReplay } from "../../../shared/queue/replay.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { claimPayment, makePayment, queuePayment, UNBOUNDED } from "../../support/made-payment.ts";
import { contentsOf } from "../../support/redis-content.ts";
import { deliverResultOn, tellProgressOn, WORK } from "../../support/results.ts";

const redis = useRedis();
const QUEUE = "webhook/7/1";
const WINDOW_MS = 60_000;
const WEEK_MS = 7 * 86_400_000;
const TOKEN = "worker:1";

/**
 * A text from the sender. Every key of Redis that can hold data of the sender contains it, so a search for it finds
 * leftovers.
 */
const SENDER_TEXT = "of the sender";
const BODY = Buffer.from(`body ${SENDER_TEXT}, of three and thirty bytes`);
const ANSWERED = markOf({ status: 200, contentType: "text/plain", body: `answer ${SENDER_TEXT}` }, 1000, 1);
const AWAITED: ResultMark = { known: "awaited" };
const DELIVERY: Delivery = {
  ...{ kind: "answer", status: 200, contentType: "text/plain", at: 1, by: "delivery" },
  body: Buffer.from(`delivered ${SENDER_TEXT}`),
};
const PROGRESS = { at: 1, json: JSON.stringify({ step: `progress ${SENDER_TEXT}` }) };

let backend: QueueBackend;
let records: CallRecords;
let results: Results;
let deliver: DeliverResult;
let journal: PaymentJournal;
let forget: Forget;

const operator = () => ({ partition: redis.partition, clock: systemClock, log: silentLogger, by: "me@here" });

beforeAll(() => {
  const { partition } = redis;
  backend = openBackends(partition, WORK)(QUEUE);
  records = createCallRecords(partition);
  results = createResults(partition);
  deliver = deliverResultOn(partition);
  journal = new PaymentJournal(partition);
  forget = createForget(operator());
});
beforeEach(() => redis.client.flushdb());

/** Returns the keys of Redis that hold data of the sender. */
async function keysWithSenderText(): Promise<string[]> {
  const all = await contentsOf(redis.client, await redis.client.keys("*"));
  const words = [SENDER_TEXT, BODY.toString("base64")];
  return Object.keys(all).filter((key) => words.some((word) => JSON.stringify(all[key]).includes(word)));
}

const recordOf = (id: string) => redis.client.hgetall(keys.record(id));
const keptMs = (id: string) => redis.client.pttl(keys.record(id));

function newCall(): JobCall {
  const { metadata, ...call } = aCall({ body: BODY, keep_result: true });
  return { ...call, metadata: { ...metadata, "X-WEBHOOK-EVENT": `event ${SENDER_TEXT}` } };
}

const claimOf = (call: JobCall, by = "a test") => ({
  by,
  bodySha256: call.sha256,
  windowMs: WINDOW_MS,
});

/** Adds a call and has a worker take it. */
async function addInFlight({ hasDeliveryId = true } = {}): Promise<JobCall> {
  const call = newCall();
  await createEnqueue(redis.partition)(call, hasDeliveryId ? claimOf(call) : undefined);
  await backend.fetch(TOKEN, { bytes: undefined, alone: false });
  return call;
}

async function attempt(id: string): Promise<void> {
  const failed = { at: 1, code: "runner.failed", reason: `reason ${SENDER_TEXT}`, worker: "w" };
  await records.attemptFailed({ id, queue: QUEUE, take: 1 }, failed, 1);
}

async function fail(id: string): Promise<void> {
  const problem = { title: `problem ${SENDER_TEXT}` };
  await records.failed({ id, queue: QUEUE }, Date.now(), {
    keepsResult: true,
    code: "runner.failed",
    problem,
  });
  const job = { id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
  await backend.moveToFailed(job, `runner.failed: reason ${SENDER_TEXT}`, false, TOKEN, false);
}

/** A call that has failed for good, with data of the sender in each place that a call can have. */
async function failed(options?: { hasDeliveryId: boolean }): Promise<JobCall> {
  const call = await addInFlight(options);
  await attempt(call.id);
  await fail(call.id);
  await tellProgressOn(redis.partition)(call.id, PROGRESS);
  return call;
}

/** Reports a 2xx for the call. It has no effect if the worker no longer holds the call. */
async function mark(id: string, result?: ResultMark): Promise<void> {
  const ended = { fetchNext: undefined, windowMs: WINDOW_MS, retried: true, result };
  await backend.injected(id, TOKEN, ended).catch(() => {});
}

async function failedRef(id: string): Promise<FailedRef> {
  const score = await redis.client.zscore(keys.inQueue(QUEUE, "failed"), id);
  return { id, queue: QUEUE, failedAt: Number(score) };
}

describe("no data of the sender of a forgotten call stays in Redis", () => {
  test.each([true, false])("if the call had failed (with a delivery id: %s)", async (hasDeliveryId) => {
    const { id } = await failed({ hasDeliveryId });
    expect(await keysWithSenderText()).toEqual(
      [
        ...[keys.inQueue(QUEUE, id), keys.inQueue(QUEUE, "events"), keys.attempts(id)],
        ...[keys.progress(id), keys.record(id)],
      ].sort(),
    );
    expect(await forget(id, "the law")).toEqual({ kind: "done" });
    expect(await keysWithSenderText()).toEqual([]);
    expect(await recordOf(id)).toMatchObject({ st: "DISCARDED", fg: expect.any(String), rs: "gone" });
    expect(await redis.client.zcard(keys.inQueue(QUEUE, "failed"))).toBe(0);
    expect(await redis.client.hget(keys.bytes, QUEUE)).toBe("0");
    expect(await redis.client.exists(keys.since(QUEUE), keys.results)).toBe(0);
  });

  test("if the runner has accepted it, answered it and delivered later", async () => {
    for (const result of [ANSWERED, AWAITED]) {
      const { id } = await addInFlight();
      await attempt(id);
      await mark(id, result);
      await tellProgressOn(redis.partition)(id, PROGRESS);
      expect(await keysWithSenderText()).toContain(keys.attempts(id));
      expect(await forget(id, "the law")).toEqual({ kind: "done" });
      expect(await keysWithSenderText()).toEqual([]);
      expect(await results.read(id)).toEqual({ kind: "gone" });
      expect(await recordOf(id)).toMatchObject({ st: "INJECTED" });
    }
    expect(await redis.client.get(keys.resultsBytes)).toBe("0");
  });

  test("and a line of the audit log, written in the same script, says who had it forgotten, and why", async () => {
    const { id } = await failed();
    await forget(id, "asked by its sender");
    await forget(id, "asked again");
    const [line, ...more] = await redis.client.xrange(keys.audit("acts"), "-", "+");
    expect(more).toEqual([]);
    expect(line?.[1].join(" ")).toMatch(
      new RegExp(`action forget call_id ${id} by me@here selection by id reason asked by its sender$`),
    );
  });
});

describe("the callback of a forgotten call is not delivered:", () => {
  const CALLBACK = {
    url: `https://a.test/?${SENDER_TEXT}`,
    receiver: "a.test",
    result_token: `rt_ ${SENDER_TEXT}`,
  };
  const CALLBACKS_QUEUE = callbackQueueOf("7/1", CALLBACK.receiver);
  const ID_OF = (id: string) => callbackId(id, "call.failed");
  let receiver: QueueBackend;
  beforeAll(() => {
    receiver = openBackends(redis.partition, WORK)(CALLBACKS_QUEUE);
  });

  /** A call that has failed for good and whose callback is still waiting to be sent. */
  async function failedWithCallback(): Promise<string> {
    const call = { ...newCall(), callback: CALLBACK };
    await createEnqueue(redis.partition)(call, claimOf(call));
    await backend.fetch(TOKEN, { bytes: undefined, alone: false });
    const failure = { code: "runner.failed", title: `problem ${SENDER_TEXT}` };
    const prepared = prepareCallback(call, Date.now(), failure) ?? "";
    const job = { id: call.id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await records.failed({ id: call.id, queue: QUEUE }, Date.now(), {
      keepsResult: true,
      code: "runner.failed",
    });
    await backend.moveToFailed(job, "runner.failed: no", false, TOKEN, false, { [PREPARED_FIELD]: prepared });
    expect(await keysWithSenderText()).toContain(keys.inQueue(CALLBACKS_QUEUE, ID_OF(call.id)));
    return call.id;
  }

  const take = () => receiver.fetch(TOKEN, { bytes: undefined, alone: false });

  async function isGone(id: string): Promise<void> {
    expect(await keysWithSenderText()).toEqual([]);
    expect(await recordOf(ID_OF(id))).toMatchObject({ st: "DISCARDED", fg: expect.any(String) });
    expect(await redis.client.hget(keys.bytes, CALLBACKS_QUEUE)).toBe("0");
  }

  test("the producer that takes a waiting callback ends it", async () => {
    const id = await failedWithCallback();
    await forget(id, "the law");
    await isGone(id);
    expect(await take()).toMatchObject({ kind: "call", data: "", record: "DISCARDED" });
    await receiver.ended(ID_OF(id), TOKEN, undefined);
    await isGone(id);
    expect(await redis.client.exists(keys.inQueue(CALLBACKS_QUEUE, ID_OF(id)))).toBe(0);
  });

  test("a callback that is being sent is not sent again, with any outcome", async () => {
    const id = await failedWithCallback();
    await take();
    await forget(id, "the law");
    const attempted = { at: 1, code: "callback.failed", reason: `500 ${SENDER_TEXT}`, worker: "w" };
    await records.attemptFailed({ id: ID_OF(id), queue: CALLBACKS_QUEUE, take: 1 }, attempted, 1);
    await receiver.moveToDelayed(ID_OF(id), Date.now(), 0, TOKEN, {});
    await isGone(id);
    expect(await take()).toMatchObject({ kind: "call", record: "DISCARDED" });
  });

  test("a callback that is being sent, and then fails for good, leaves no log behind", async () => {
    const id = await failedWithCallback();
    await take();
    await forget(id, "the law");
    const job = { id: ID_OF(id), opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await receiver.moveToFailed(job, "callback.gone: 410", false, TOKEN, false);
    expect(await redis.client.exists(keys.attempts(ID_OF(id)))).toBe(0);
  });

  test("a failed callback is discarded", async () => {
    const id = await failedWithCallback();
    await take();
    const job = { id: ID_OF(id), opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await receiver.moveToFailed(job, `callback.failed: 500 ${SENDER_TEXT}`, false, TOKEN, false);
    await forget(id, "the law");
    await isGone(id);
    expect(await redis.client.zcard(keys.inQueue(CALLBACKS_QUEUE, "failed"))).toBe(0);
  });

  test("a callback of a result that is still awaited is never queued", async () => {
    const call = { ...newCall(), callback: CALLBACK };
    await createEnqueue(redis.partition)(call, claimOf(call));
    await backend.fetch(TOKEN, { bytes: undefined, alone: false });
    const callback = prepareCallback(call, Date.now());
    const ended = { fetchNext: undefined, windowMs: WINDOW_MS, retried: false, result: AWAITED, callback };
    await backend.injected(call.id, TOKEN, ended);
    expect(await keysWithSenderText()).toEqual([keys.record(call.id)]);
    await forget(call.id, "the law");
    expect(await deliver(call.id, DELIVERY)).toBe("too late");
    expect([
      await keysWithSenderText(),
      await redis.client.exists(keys.inQueue(CALLBACKS_QUEUE, "wait")),
    ]).toEqual([[], 0]);
  });
});

test("the watchers of a call are notified that it is forgotten, and that a 2xx came late", async () => {
  const { id } = await failed();
  const listener = redis.client.duplicate();
  const notified: string[] = [];
  listener.on("message", (_channel: string, text: string) => notified.push(text));
  await listener.subscribe(keys.changes);
  await forget(id, "the law");
  await expect.poll(() => notified).toEqual([id]);
  await mark(id, ANSWERED);
  await expect.poll(() => notified).toEqual([id, id]);
  listener.disconnect();
});

describe("a call is not forgotten", () => {
  const refused = (id: string) => forget(id, "the law").catch((error: { code: string }) => error.code);

  test("while it waits, is in flight or is delayed: call.in_hand", async () => {
    const waits = newCall();
    await createEnqueue(redis.partition)(waits, claimOf(waits));
    expect(await refused(waits.id)).toBe("call.in_hand");
    await backend.fetch(TOKEN, { bytes: undefined, alone: false });
    expect(await refused(waits.id)).toBe("call.in_hand");
    await backend.moveToDelayed(waits.id, Date.now(), 60_000, TOKEN, {});
    expect(await refused(waits.id)).toBe("call.in_hand");
    expect(await keysWithSenderText()).toEqual([keys.inQueue(QUEUE, waits.id)]);
  });

  test("after it was replayed: call.in_hand", async () => {
    const { id } = await failed();
    await createReplay(operator())(await failedRef(id), { selection: "by id" });
    expect(await refused(id)).toBe("call.in_hand");
  });

  test("while its payment is not decided, even in review: call.undecided", async () => {
    const id = await claimPayment(journal, { network: "eip155:1", asset: "0xa" });
    expect(await refused(id)).toBe("call.undecided");
    await journal.markForReview(id, "it contradicts itself");
    expect(await refused(id)).toBe("call.undecided");
    expect((await journal.find(id))?.call).toBeDefined();
  });

  test("if it is unknown: call.unknown", async () => {
    expect(await refused(newCall().id)).toBe("call.unknown");
    expect(await redis.client.dbsize()).toBe(0);
  });

  test("if its record has a state that no process writes: record.unreadable", async () => {
    const { id } = newCall();
    await redis.client.hset(keys.record(id), { st: "LATER" });
    expect(await refused(id)).toBe("record.unreadable");
    expect(await redis.client.hgetall(keys.record(id))).toEqual({ st: "LATER" });
  });
});

test("a second request to forget a call reports the first, and writes nothing", async () => {
  const { id } = await failed();
  await forget(id, "the law");
  const at = Number((await recordOf(id))["fg"]);
  const before = await contentsOf(redis.client, await redis.client.keys("*"));
  expect(await forget(id, "the law")).toEqual({ kind: "before", at });
  expect(await contentsOf(redis.client, await redis.client.keys("*"))).toEqual(before);
});

describe("a forgotten call keeps its identity", () => {
  test("so that a repeat of the delivery is the same call, and adds nothing", async () => {
    const call = await failed();
    await forget(call.id, "the law");
    const enqueue = createEnqueue(redis.partition);
    expect(await enqueue(call, claimOf(call, "a repeat"))).toMatchObject({
      kind: "known",
      state: "DISCARDED",
    });
    const other = { ...claimOf(call, "a repeat"), bodySha256: sha256Hex(Buffer.from("another body")) };
    expect(await enqueue(call, other)).toEqual({ kind: "conflict" });
    expect(await keysWithSenderText()).toEqual([]);
  });

  test("for at least a week, and as long as without the request", async () => {
    const { id } = await failed();
    await forget(id, "the law");
    expect(await keptMs(id)).toBeGreaterThan(WEEK_MS - 60_000);
    const long = await addInFlight();
    await mark(long.id, ANSWERED);
    await redis.client.pexpire(keys.record(long.id), 2 * WEEK_MS);
    await forget(long.id, "the law");
    expect(await keptMs(long.id)).toBeGreaterThan(2 * WEEK_MS - 60_000);
  });

  test("and is not replayed, even if a replay had begun", async () => {
    const { id } = await failed();
    const ref = await failedRef(id);
    await forget(id, "the law");
    expect(await createReplay(operator())(ref, { selection: "by id" })).toBe("left");
    expect(await redis.client.exists(keys.inQueue(QUEUE, id), keys.since(QUEUE))).toBe(0);
  });
});

describe("a late write stores no data of a forgotten call:", () => {
  const late: Record<string, (id: string) => Promise<unknown>> = {
    "a 2xx with its answer": (id) => mark(id, ANSWERED),
    "a 202": (id) => mark(id, AWAITED),
    "a 2xx of a job that keeps no results": (id) => mark(id),
    "a delivery": (id) => deliver(id, DELIVERY),
    progress: (id) => tellProgressOn(redis.partition)(id, PROGRESS),
    "a failed attempt": (id) => attempt(id),
    "the end of its attempts": (id) => fail(id).catch(() => {}),
    "that it may have had an effect": (id) => records.unsure({ id, queue: QUEUE, take: 1 }),
  };

  async function forgotten(): Promise<Record<string, string>> {
    const of: Record<string, string> = {};
    for (const state of ["failed", "failed without a delivery id", "answered", "awaited"]) {
      const isFailed = state.startsWith("failed");
      const { id } = isFailed ? await failed({ hasDeliveryId: state === "failed" }) : await addInFlight();
      if (!isFailed) await mark(id, state === "answered" ? ANSWERED : AWAITED);
      await forget(id, "the law");
      of[state] = id;
    }
    return of;
  }

  test.each(Object.keys(late))("%s", async (name) => {
    for (const [state, id] of Object.entries(await forgotten())) {
      const lived = await keptMs(id);
      await late[name]?.(id);
      expect([state, await keysWithSenderText()]).toEqual([state, []]);
      expect([state, await results.read(id)]).toEqual([state, { kind: "gone" }]);
      expect(await redis.client.exists(keys.attempts(id), keys.result(id), keys.progress(id))).toBe(0);
      expect(await keptMs(id)).toBeGreaterThan(lived - 10_000);
    }
  });

  test("a delivery and progress are refused as too late", async () => {
    for (const id of Object.values(await forgotten())) {
      expect(await deliver(id, DELIVERY)).toBe("too late");
      expect(await tellProgressOn(redis.partition)(id, PROGRESS)).toBe("ended");
    }
  });

  test("a 2xx still marks the job as run, so that its payment is not refunded", async () => {
    const { id } = await failed();
    await forget(id, "the law");
    await mark(id, ANSWERED);
    expect(await recordOf(id)).toMatchObject({ st: "INJECTED", rs: "gone", fg: expect.any(String) });
  });

  test("an add whose reply was lost is taken and ended, without a run", async () => {
    const call = await failed({ hasDeliveryId: false });
    await forget(call.id, "the law");
    await createEnqueue(redis.partition)(call);
    expect(await backend.fetch(TOKEN, { bytes: undefined, alone: false })).toMatchObject({
      kind: "call",
      record: "DISCARDED",
    });
    await backend.ended(call.id, TOKEN, undefined);
    expect(await keysWithSenderText()).toEqual([]);
  });
});

describe("a forgotten paid call", () => {
  const TOKEN_OF = { network: "eip155:1", asset: "0xa", body: BODY };
  const X402_QUEUE = "x402/1/7";

  /** A paid call that has failed for good. */
  async function failedPaid(proven: boolean): Promise<string> {
    const id = await queuePayment(journal, TOKEN_OF, proven);
    const worker = openBackends(redis.partition, WORK)(X402_QUEUE);
    await worker.fetch(TOKEN, { bytes: undefined, alone: false });
    await records.failed({ id, queue: X402_QUEUE }, Date.now(), { keepsResult: true, code: "runner.failed" });
    const job = { id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await worker.moveToFailed(job, `runner.failed: reason ${SENDER_TEXT}`, false, TOKEN, false);
    return id;
  }

  test("loses its body in the journal too, and the payment's identity stays for its month", async () => {
    const id = await failedPaid(true);
    const before = await journal.find(id);
    expect(before?.call).toBeDefined();
    await forget(id, "the law");
    expect(await keysWithSenderText()).toEqual([]);
    const { terms, settlement, bodySha256, route } = before ?? {};
    expect(await journal.find(id)).toMatchObject({
      ...{ state: "DISCARDED", terms, settlement, bodySha256, route, effect: "none" },
      ...{ call: undefined, request: undefined },
    });
    expect(await keptMs(id)).toBeGreaterThan(29 * 86_400_000);
  });

  test("keeps the data to settle the payment again until the chain has confirmed it", async () => {
    const id = await failedPaid(false);
    await forget(id, "the law");
    const open = await journal.find(id);
    expect([open?.call, open?.request]).toEqual([undefined, expect.any(Object)]);
    if (open !== undefined) await journal.markEnded(open);
    expect((await journal.find(id))?.request).toBeUndefined();
  });

  test("keeps its payment known, so that it is not claimed again", async () => {
    const payment = makePayment(TOKEN_OF);
    const claim = (by: string) => journal.claim(payment, { ...UNBOUNDED, by, dueInMs: 0 });
    await claim("the first");
    const { id } = payment.call;
    const found = await journal.find(id);
    if (found !== undefined)
      await journal.markVoid(found, { reason: "it ended" }, { now: Date.now(), from: ["SETTLING"] });
    expect(await forget(id, "the law")).toEqual({ kind: "done" });
    expect(await claim("a repeat")).toEqual({ kind: "known", id });
    expect((await journal.find(id))?.state).toBe("VOID");
  });

  test("keeps its exported refund open and unchanged", async () => {
    const id = await failedPaid(true);
    await redis.client.hset(keys.record(id), "st", "REFUND_PENDING");
    await redis.client.persist(keys.record(id));
    await forget(id, "the law");
    expect([(await recordOf(id))["st"], await keptMs(id)]).toEqual(["REFUND_PENDING", -1]);
  });
});
