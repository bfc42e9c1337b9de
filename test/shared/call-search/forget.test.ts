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
import { claimed, makePayment, queued, UNBOUNDED } from "../../support/made-payment.ts";
import { contentsOf } from "../../support/redis-content.ts";
import { deliverResultOn, tellProgressOn, WORK } from "../../support/results.ts";

const redis = useRedis();
const QUEUE = "webhook/7/1";
const WINDOW_MS = 60_000;
const WEEK_MS = 7 * 86_400_000;
const TOKEN = "worker:1";

/** What the sender has said, in each place where it can come to stand. */
const SAID = "of the sender";
const BODY = Buffer.from(`body ${SAID}, of three and thirty bytes`);
const ANSWERED = markOf({ status: 200, contentType: "text/plain", body: `answer ${SAID}` }, 1000, 1);
const AWAITED: ResultMark = { known: "awaited" };
const DELIVERY: Delivery = {
  ...{ kind: "answer", status: 200, contentType: "text/plain", at: 1, by: "delivery" },
  body: Buffer.from(`delivered ${SAID}`),
};
const PROGRESS = { at: 1, json: JSON.stringify({ step: `progress ${SAID}` }) };

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

/** Where Redis holds something that the sender has said. */
async function whereSaid(): Promise<string[]> {
  const all = await contentsOf(redis.client, await redis.client.keys("*"));
  const words = [SAID, BODY.toString("base64")];
  return Object.keys(all).filter((key) => words.some((word) => JSON.stringify(all[key]).includes(word)));
}

const recordOf = (id: string) => redis.client.hgetall(keys.record(id));
const keptMs = (id: string) => redis.client.pttl(keys.record(id));

function newCall(): JobCall {
  const { metadata, ...call } = aCall({ body: BODY, keep_result: true });
  return { ...call, metadata: { ...metadata, "X-WEBHOOK-EVENT": `event ${SAID}` } };
}

const claimOf = (call: JobCall, by = "a test") => ({
  by,
  bodySha256: call.sha256,
  windowMs: WINDOW_MS,
});

/** Adds a call, and has a worker take it. */
async function inHand({ hasDeliveryId = true } = {}): Promise<JobCall> {
  const call = newCall();
  await createEnqueue(redis.partition)(call, hasDeliveryId ? claimOf(call) : undefined);
  await backend.fetch(TOKEN, { bytes: undefined, alone: false });
  return call;
}

async function attempt(id: string): Promise<void> {
  const failed = { at: 1, code: "runner.failed", reason: `reason ${SAID}`, worker: "w" };
  await records.attemptFailed({ id, queue: QUEUE, take: 1 }, failed, 1);
}

async function fail(id: string): Promise<void> {
  const problem = { title: `problem ${SAID}` };
  await records.failed({ id, queue: QUEUE }, Date.now(), {
    keepsResult: true,
    code: "runner.failed",
    problem,
  });
  const job = { id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
  await backend.moveToFailed(job, `runner.failed: reason ${SAID}`, false, TOKEN, false);
}

/** A call that has failed for good, of which there is something in each place. */
async function failed(options?: { hasDeliveryId: boolean }): Promise<JobCall> {
  const call = await inHand(options);
  await attempt(call.id);
  await fail(call.id);
  await tellProgressOn(redis.partition)(call.id, PROGRESS);
  return call;
}

/** A worker tells of a 2xx. It may have lost the call. */
async function mark(id: string, result?: ResultMark): Promise<void> {
  const ended = { fetchNext: undefined, windowMs: WINDOW_MS, retried: true, result };
  await backend.injected(id, TOKEN, ended).catch(() => {});
}

async function failedRef(id: string): Promise<FailedRef> {
  const score = await redis.client.zscore(keys.inQueue(QUEUE, "failed"), id);
  return { id, queue: QUEUE, failedAt: Number(score) };
}

describe("of a forgotten call nothing that its sender has said stays in Redis,", () => {
  test.each([true, false])("if it had failed (with a delivery id: %s)", async (hasDeliveryId) => {
    const { id } = await failed({ hasDeliveryId });
    expect(await whereSaid()).toEqual(
      [
        ...[keys.inQueue(QUEUE, id), keys.inQueue(QUEUE, "events"), keys.attempts(id)],
        ...[keys.progress(id), keys.record(id)],
      ].sort(),
    );
    expect(await forget(id, "the law")).toEqual({ kind: "done" });
    expect(await whereSaid()).toEqual([]);
    expect(await recordOf(id)).toMatchObject({ st: "DISCARDED", fg: expect.any(String), rs: "gone" });
    expect(await redis.client.zcard(keys.inQueue(QUEUE, "failed"))).toBe(0);
    expect(await redis.client.hget(keys.bytes, QUEUE)).toBe("0");
    expect(await redis.client.exists(keys.since(QUEUE), keys.results)).toBe(0);
  });

  test("if the runner has taken it, answered it and taken longer over it", async () => {
    for (const result of [ANSWERED, AWAITED]) {
      const { id } = await inHand();
      await attempt(id);
      await mark(id, result);
      await tellProgressOn(redis.partition)(id, PROGRESS);
      expect(await whereSaid()).toContain(keys.attempts(id));
      expect(await forget(id, "the law")).toEqual({ kind: "done" });
      expect(await whereSaid()).toEqual([]);
      expect(await results.read(id)).toEqual({ kind: "gone" });
      expect(await recordOf(id)).toMatchObject({ st: "INJECTED" });
    }
    expect(await redis.client.get(keys.resultsBytes)).toBe("0");
  });

  test("and a line of the audit says who had it forgotten, and why, in the same step", async () => {
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

describe("the callback of a forgotten call is told to nobody any more:", () => {
  const CALLBACK = { url: `https://a.test/?${SAID}`, receiver: "a.test", result_token: `rt_ ${SAID}` };
  const CALLBACKS_QUEUE = callbackQueueOf("7/1", CALLBACK.receiver);
  const ID_OF = (id: string) => callbackId(id, "call.failed");
  let receiver: QueueBackend;
  beforeAll(() => {
    receiver = openBackends(redis.partition, WORK)(CALLBACKS_QUEUE);
  });

  /** A call that has failed for good, whose receiver waits to be told. */
  async function failedWithCallback(): Promise<string> {
    const call = { ...newCall(), callback: CALLBACK };
    await createEnqueue(redis.partition)(call, claimOf(call));
    await backend.fetch(TOKEN, { bytes: undefined, alone: false });
    const failure = { code: "runner.failed", title: `problem ${SAID}` };
    const prepared = prepareCallback(call, Date.now(), failure) ?? "";
    const job = { id: call.id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await records.failed({ id: call.id, queue: QUEUE }, Date.now(), {
      keepsResult: true,
      code: "runner.failed",
    });
    await backend.moveToFailed(job, "runner.failed: no", false, TOKEN, false, { [PREPARED_FIELD]: prepared });
    expect(await whereSaid()).toContain(keys.inQueue(CALLBACKS_QUEUE, ID_OF(call.id)));
    return call.id;
  }

  const take = () => receiver.fetch(TOKEN, { bytes: undefined, alone: false });

  async function isGone(id: string): Promise<void> {
    expect(await whereSaid()).toEqual([]);
    expect(await recordOf(ID_OF(id))).toMatchObject({ st: "DISCARDED", fg: expect.any(String) });
    expect(await redis.client.hget(keys.bytes, CALLBACKS_QUEUE)).toBe("0");
  }

  test("one that waits is ended by the producer that takes it", async () => {
    const id = await failedWithCallback();
    await forget(id, "the law");
    await isGone(id);
    expect(await take()).toMatchObject({ kind: "call", data: "", record: "DISCARDED" });
    await receiver.ended(ID_OF(id), TOKEN, undefined);
    await isGone(id);
    expect(await redis.client.exists(keys.inQueue(CALLBACKS_QUEUE, ID_OF(id)))).toBe(0);
  });

  test("one that is being sent is not sent again, whatever comes of it", async () => {
    const id = await failedWithCallback();
    await take();
    await forget(id, "the law");
    const attempted = { at: 1, code: "callback.failed", reason: `500 ${SAID}`, worker: "w" };
    await records.attemptFailed({ id: ID_OF(id), queue: CALLBACKS_QUEUE, take: 1 }, attempted, 1);
    await receiver.moveToDelayed(ID_OF(id), Date.now(), 0, TOKEN, {});
    await isGone(id);
    expect(await take()).toMatchObject({ kind: "call", record: "DISCARDED" });
  });

  test("one that is being sent, and then fails for good, leaves no log that nobody deletes", async () => {
    const id = await failedWithCallback();
    await take();
    await forget(id, "the law");
    const job = { id: ID_OF(id), opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await receiver.moveToFailed(job, "callback.gone: 410", false, TOKEN, false);
    expect(await redis.client.exists(keys.attempts(ID_OF(id)))).toBe(0);
  });

  test("one that has failed is discarded", async () => {
    const id = await failedWithCallback();
    await take();
    const job = { id: ID_OF(id), opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await receiver.moveToFailed(job, `callback.failed: 500 ${SAID}`, false, TOKEN, false);
    await forget(id, "the law");
    await isGone(id);
    expect(await redis.client.zcard(keys.inQueue(CALLBACKS_QUEUE, "failed"))).toBe(0);
  });

  test("one that would tell of a result that is still awaited never comes", async () => {
    const call = { ...newCall(), callback: CALLBACK };
    await createEnqueue(redis.partition)(call, claimOf(call));
    await backend.fetch(TOKEN, { bytes: undefined, alone: false });
    const callback = prepareCallback(call, Date.now());
    const ended = { fetchNext: undefined, windowMs: WINDOW_MS, retried: false, result: AWAITED, callback };
    await backend.injected(call.id, TOKEN, ended);
    expect(await whereSaid()).toEqual([keys.record(call.id)]);
    await forget(call.id, "the law");
    expect(await deliver(call.id, DELIVERY)).toBe("too late");
    expect([await whereSaid(), await redis.client.exists(keys.inQueue(CALLBACKS_QUEUE, "wait"))]).toEqual([
      [],
      0,
    ]);
  });
});

test("whoever watches a call is told that it is forgotten, and that a 2xx came late", async () => {
  const { id } = await failed();
  const listener = redis.client.duplicate();
  const told: string[] = [];
  listener.on("message", (_channel: string, text: string) => told.push(text));
  await listener.subscribe(keys.changes);
  await forget(id, "the law");
  await expect.poll(() => told).toEqual([id]);
  await mark(id, ANSWERED);
  await expect.poll(() => told).toEqual([id, id]);
  listener.disconnect();
});

describe("a call is not forgotten", () => {
  const refused = (id: string) => forget(id, "the law").catch((error: { code: string }) => error.code);

  test("while it waits, is in hand or is delayed: call.in_hand", async () => {
    const waits = newCall();
    await createEnqueue(redis.partition)(waits, claimOf(waits));
    expect(await refused(waits.id)).toBe("call.in_hand");
    await backend.fetch(TOKEN, { bytes: undefined, alone: false });
    expect(await refused(waits.id)).toBe("call.in_hand");
    await backend.moveToDelayed(waits.id, Date.now(), 60_000, TOKEN, {});
    expect(await refused(waits.id)).toBe("call.in_hand");
    expect(await whereSaid()).toEqual([keys.inQueue(QUEUE, waits.id)]);
  });

  test("once it was replayed: call.in_hand", async () => {
    const { id } = await failed();
    await createReplay(operator())(await failedRef(id), { selection: "by id" });
    expect(await refused(id)).toBe("call.in_hand");
  });

  test("whose payment is not decided: call.undecided, in review too", async () => {
    const id = await claimed(journal, { network: "eip155:1", asset: "0xa" });
    expect(await refused(id)).toBe("call.undecided");
    await journal.markForReview(id, "it contradicts itself");
    expect(await refused(id)).toBe("call.undecided");
    expect((await journal.find(id))?.call).toBeDefined();
  });

  test("that nobody knows: call.unknown", async () => {
    expect(await refused(newCall().id)).toBe("call.unknown");
    expect(await redis.client.dbsize()).toBe(0);
  });

  test("whose record has a state that no process writes: record.unreadable", async () => {
    const { id } = newCall();
    await redis.client.hset(keys.record(id), { st: "LATER" });
    expect(await refused(id)).toBe("record.unreadable");
    expect(await redis.client.hgetall(keys.record(id))).toEqual({ st: "LATER" });
  });
});

test("a call forgotten again was forgotten before, and nothing is written", async () => {
  const { id } = await failed();
  await forget(id, "the law");
  const at = Number((await recordOf(id))["fg"]);
  const before = await contentsOf(redis.client, await redis.client.keys("*"));
  expect(await forget(id, "the law")).toEqual({ kind: "before", at });
  expect(await contentsOf(redis.client, await redis.client.keys("*"))).toEqual(before);
});

describe("a forgotten call keeps its identity,", () => {
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
    expect(await whereSaid()).toEqual([]);
  });

  test("for a week at least, and as long as it would have anyway", async () => {
    const { id } = await failed();
    await forget(id, "the law");
    expect(await keptMs(id)).toBeGreaterThan(WEEK_MS - 60_000);
    const long = await inHand();
    await mark(long.id, ANSWERED);
    await redis.client.pexpire(keys.record(long.id), 2 * WEEK_MS);
    await forget(long.id, "the law");
    expect(await keptMs(long.id)).toBeGreaterThan(2 * WEEK_MS - 60_000);
  });

  test("and is not replayed any more, also if the replay had begun", async () => {
    const { id } = await failed();
    const ref = await failedRef(id);
    await forget(id, "the law");
    expect(await createReplay(operator())(ref, { selection: "by id" })).toBe("left");
    expect(await redis.client.exists(keys.inQueue(QUEUE, id), keys.since(QUEUE))).toBe(0);
  });
});

describe("what comes late writes nothing back of a forgotten call:", () => {
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
      const { id } = isFailed ? await failed({ hasDeliveryId: state === "failed" }) : await inHand();
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
      expect([state, await whereSaid()]).toEqual([state, []]);
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

  test("a 2xx still says that the job has run, so that nobody pays it back", async () => {
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
    expect(await whereSaid()).toEqual([]);
  });
});

describe("of a forgotten paid call", () => {
  const TOKEN_OF = { network: "eip155:1", asset: "0xa", body: BODY };
  const X402_QUEUE = "x402/1/7";

  /** A call that was paid, and has failed for good. */
  async function failedPaid(proven: boolean): Promise<string> {
    const id = await queued(journal, TOKEN_OF, proven);
    const worker = openBackends(redis.partition, WORK)(X402_QUEUE);
    await worker.fetch(TOKEN, { bytes: undefined, alone: false });
    await records.failed({ id, queue: X402_QUEUE }, Date.now(), { keepsResult: true, code: "runner.failed" });
    const job = { id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await worker.moveToFailed(job, `runner.failed: reason ${SAID}`, false, TOKEN, false);
    return id;
  }

  test("the body leaves the journal too, and what the payment is known by stays for its month", async () => {
    const id = await failedPaid(true);
    const before = await journal.find(id);
    expect(before?.call).toBeDefined();
    await forget(id, "the law");
    expect(await whereSaid()).toEqual([]);
    const { terms, settlement, bodySha256, route } = before ?? {};
    expect(await journal.find(id)).toMatchObject({
      ...{ state: "DISCARDED", terms, settlement, bodySha256, route, effect: "none" },
      ...{ call: undefined, request: undefined },
    });
    expect(await keptMs(id)).toBeGreaterThan(29 * 86_400_000);
  });

  test("what settling it again would need stays until the chain has shown the payment", async () => {
    const id = await failedPaid(false);
    await forget(id, "the law");
    const open = await journal.find(id);
    expect([open?.call, open?.request]).toEqual([undefined, expect.any(Object)]);
    if (open !== undefined) await journal.markEnded(open);
    expect((await journal.find(id))?.request).toBeUndefined();
  });

  test("the same payment is known, and is not claimed again", async () => {
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

  test("a refund that is exported is neither closed nor let go", async () => {
    const id = await failedPaid(true);
    await redis.client.hset(keys.record(id), "st", "REFUND_PENDING");
    await redis.client.persist(keys.record(id));
    await forget(id, "the law");
    expect([(await recordOf(id))["st"], await keptMs(id)]).toEqual(["REFUND_PENDING", -1]);
  });
});
