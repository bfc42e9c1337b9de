import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { callbackId } from "../../../shared/call/callback.ts";
import { markOf } from "../../../shared/call/results/answer.ts";
import { createForget } from "../../../shared/call-search/forget.ts";
import { createCallHistory } from "../../../shared/call-search/history/keep.ts";
import {
  type CallLife,
  createReadBody,
  createReadLife,
  type ReadLife,
} from "../../../shared/call-search/life.ts";
import type { LifeStep } from "../../../shared/call-search/steps.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { openBackends, type QueueBackend } from "../../../shared/queue/backend.ts";
import { noteOf } from "../../../shared/queue/call-log.ts";
import { type CallRecords, createCallRecords } from "../../../shared/queue/call-record.ts";
import { prepareCallback } from "../../../shared/queue/callbacks.ts";
import { callbackQueueOf } from "../../../shared/queue/queue-name.ts";
import { openDelayed } from "../../../shared/queue/run-delayed.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { claimPayment, queuePayment } from "../../support/made-payment.ts";
import { tellProgressOn, WORK } from "../../support/results.ts";

const redis = useRedis();
const QUEUE = "webhook/7/1";
const TOKEN = "worker:1";
const PAID = { network: "eip155:1", asset: "0xa", body: Buffer.from("a paid body") };

let backend: QueueBackend;
let records: CallRecords;
let journal: PaymentJournal;
let readLife: ReadLife;

beforeAll(() => {
  const { partition } = redis;
  backend = openBackends(partition, WORK)(QUEUE);
  records = createCallRecords(partition);
  journal = new PaymentJournal(partition);
  readLife = createReadLife(partition);
});
beforeEach(() => redis.client.flushdb());

async function lifeOf(id: string): Promise<CallLife> {
  const life = await readLife(id);
  if (life === undefined) throw new Error(`${id} is not known`);
  return life;
}

/** The steps in the call's log that are attempts, with their numbers. */
async function attemptsIn(id: string): Promise<string[]> {
  return (await lifeOf(id)).steps.flatMap((step) => ("n" in step ? `${step.kind} ${step.n}` : []));
}

const kinds = ({ steps }: CallLife): string[] => steps.map(({ kind }) => kind);
const stepOf = ({ steps }: CallLife, kind: LifeStep["kind"]) => steps.find((step) => step.kind === kind);

async function added(options: { claimed?: boolean; body?: Buffer; acceptedAt?: number } = {}) {
  const { claimed: isClaimed = true, body, acceptedAt = Date.now() - 1000 } = options;
  const call = aCall({ keep_result: true, accepted_at: acceptedAt, ...(body && { body }) });
  const claim = { by: "a test", bodySha256: call.sha256, windowMs: 60_000 };
  await createEnqueue(redis.partition)(call, isClaimed ? claim : undefined);
  return call;
}

const fetch = (worker = backend) => worker.fetch(TOKEN, { bytes: undefined, alone: false });

async function attempts(id: string, count: number, firstTake = 1): Promise<void> {
  for (let n = 1; n <= count; n++) {
    const failed = { at: Date.now(), code: "runner.failed", reason: `500 no ${n}`, worker: "w" };
    await records.attemptFailed({ id, queue: QUEUE, take: firstTake + n - 1 }, failed, 1);
  }
}

async function fail(id: string, now = Date.now()): Promise<void> {
  await records.failed({ id, queue: QUEUE }, now, {
    ...{ keepsResult: true, code: "runner.failed", problem: { title: "No" } },
  });
  const job = { id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
  await backend.moveToFailed(job, "runner.failed: 500 no", false, TOKEN, false);
}

async function inject(id: string, body = "done"): Promise<void> {
  const result = markOf({ status: 200, contentType: "text/plain", body }, 1e6, Date.now());
  await backend.injected(id, TOKEN, { fetchNext: undefined, windowMs: 60_000, retried: true, result });
}

/** Lets the call fail after one attempt and replays it, this number of times. */
async function failAndReplay(id: string, times: number): Promise<void> {
  for (let n = 1; n <= times; n++) {
    await fetch();
    await attempts(id, 1, n);
    await fail(id);
    await backend.replay(id, noteOf(n % 2 === 0 ? "vera" : "otto", `fix ${n}`));
  }
}

/** Lets an attempt fail, after which the call waits for its delay, and has an operator end the delay. */
async function delayAndRun(id: string, n = 1): Promise<void> {
  await fetch();
  await attempts(id, 1, n);
  await backend.moveToDelayed(id, Date.now(), 600_000, TOKEN, {});
  await openDelayed(redis.partition).runAllOf("7/1", { at: 1, by: "otto", reason: `repaired ${n}` });
}

/** Simulates the end of the worker that has the call in flight: its lock is gone, and another worker takes the call back. */
async function takeBack(id: string): Promise<void> {
  await redis.client.del(keys.inQueue(QUEUE, `${id}:lock`));
  for (let check = 1; check <= 2; check++) {
    await redis.client.del(keys.inQueue(QUEUE, "stalled-check"));
    await backend.moveStalledJobsToWait();
  }
}

describe("the log of a call", () => {
  test("has each failure and replay between the attempts, in order, and who replayed it and why", async () => {
    const { id } = await added();
    await failAndReplay(id, 2);
    await fetch();
    await inject(id);
    const life = await lifeOf(id);
    expect(life).toMatchObject({ state: "injected", attempts: 3, replays: 2 });
    expect(life.steps.filter(({ kind }) => kind !== "result")).toMatchObject([
      { kind: "attempt failed", n: 1 },
      { kind: "failed", code: "runner.failed", reason: "500 no 1" },
      { kind: "replayed", by: "otto", reason: "fix 1" },
      { kind: "attempt failed", n: 2 },
      { kind: "failed" },
      { kind: "replayed", by: "vera", reason: "fix 2" },
      { kind: "injected", n: 3 },
    ]);
    expect(await redis.client.pttl(keys.attempts(id))).toBeGreaterThan(0);
  });

  test("has who ran the delayed call early, and why, and the failure before that stays the last one", async () => {
    const { id } = await added();
    await delayAndRun(id);
    await delayAndRun(id, 2);
    expect(await fetch()).toMatchObject({
      ...{ attemptsBefore: 2, lastFailure: expect.stringContaining("500 no 1") },
    });
    await inject(id);
    const life = await lifeOf(id);
    expect(life).toMatchObject({ state: "injected", attempts: 3, replays: 0 });
    expect(life.steps.filter(({ kind }) => kind !== "result")).toMatchObject([
      { kind: "attempt failed", n: 1 },
      { kind: "run early", by: "otto", reason: "repaired 1" },
      { kind: "attempt failed", n: 2 },
      { kind: "run early", by: "otto", reason: "repaired 2" },
      { kind: "injected", n: 3 },
    ]);
    expect(await redis.client.pttl(keys.attempts(id))).toBeGreaterThan(0);
  });

  test("has no early run while Redis is nearly full, but the failure before it", async () => {
    const { id } = await added();
    await redis.client.set(keys.historyOff, "a gateway");
    await delayAndRun(id);
    expect(await fetch()).toMatchObject({ lastFailure: expect.stringContaining("500 no 1") });
    expect(kinds(await lifeOf(id))).toEqual(["created", "attempt failed"]);
  });

  test("has the same time of failure as the record and the list of failed calls", async () => {
    const { id } = await added();
    await fetch();
    await attempts(id, 1);
    await fail(id, Date.now() - 500);
    const life = await lifeOf(id);
    const failedAt = Number(await redis.client.zscore(keys.inQueue(QUEUE, "failed"), id));
    expect(life).toMatchObject({ state: "failed", changedAt: failedAt });
    expect(stepOf(life, "failed")).toMatchObject({ at: failedAt });
  });

  test("keeps the newest five of each kind, and counts all", async () => {
    const { id } = await added();
    await failAndReplay(id, 7);
    const life = await lifeOf(id);
    expect(life).toMatchObject({ attempts: 7, replays: 7 });
    expect(stepOf(life, "attempt failed")).toMatchObject({ n: 3, missing: 2 });
    const reasons = life.steps.flatMap((step) => (step.kind === "replayed" ? step.reason : []));
    expect(reasons).toEqual(["fix 3", "fix 4", "fix 5", "fix 6", "fix 7"]);
    await fetch();
    await attempts(id, 9, 8);
    expect((await lifeOf(id)).steps.at(-5)).toMatchObject({ kind: "attempt failed", n: 12, missing: 4 });
    expect(await redis.client.llen(keys.attempts(id))).toBe(15);
  });

  test("keeps only the newest entry while Redis is nearly full, and counts all", async () => {
    const { id } = await added();
    await redis.client.set(keys.historyOff, "a gateway");
    await failAndReplay(id, 2);
    expect(await redis.client.llen(keys.attempts(id))).toBe(1);
    const life = await lifeOf(id);
    expect(life).toMatchObject({ attempts: 2, replays: 2 });
    expect(stepOf(life, "replayed")).toMatchObject({ by: "vera", missing: 2 });
  });

  test("counts an attempt whose worker ended once, even if that worker reported it before or after", async () => {
    const { id } = await added();
    const take = () => backend.fetch(TOKEN, { bytes: undefined, alone: true });
    const attemptsNow = () => attemptsIn(id);
    await take();
    await takeBack(id);
    expect(await attemptsNow()).toEqual(["attempt lost 1"]);
    expect(await take()).toMatchObject({ attemptsStarted: 2, attemptsBefore: 1 });
    await attempts(id, 1, 2);
    await takeBack(id);
    expect(await attemptsNow()).toEqual(["attempt lost 1", "attempt failed 2"]);
    await take();
    await takeBack(id);
    expect(await attemptsNow()).toEqual(["attempt lost 1", "attempt failed 2", "attempt lost 3"]);
    await take();
    await attempts(id, 1, 3);
    expect(await attemptsNow()).toEqual(["attempt lost 1", "attempt failed 2", "attempt failed 3"]);
    await attempts(id, 1, 4);
    await inject(id);
    expect(await lifeOf(id)).toMatchObject({ attempts: 5, replays: 0 });
  });

  test("counts an attempt once if it is recorded again after a lost reply", async () => {
    const { id } = await added();
    await attempts(id, 1, 1);
    await attempts(id, 1, 1);
    expect(await attemptsIn(id)).toEqual(["attempt failed 1"]);
    await attempts(id, 7, 2);
    for (const take of [1, 5, 8]) await attempts(id, 1, take);
    expect(await attemptsIn(id)).toEqual([4, 5, 6, 7, 8].map((n) => `attempt failed ${n}`));
  });

  test("counts a lost attempt once, even if its worker wakes after the call has failed and was replayed", async () => {
    const { id } = await added();
    await fetch();
    await takeBack(id);
    await backend.fetch(TOKEN, { bytes: undefined, alone: true });
    await fail(id);
    const late = async () => {
      await records.unsure({ id, queue: QUEUE, take: 1 });
      return attemptsIn(id);
    };
    expect(await late()).toEqual(["attempt lost 1"]);
    await backend.replay(id, noteOf("otto", "mended"));
    expect(await late()).toEqual(["attempt lost 1"]);
    await attempts(id, 1, 1);
    expect(await attemptsIn(id)).toEqual(["attempt failed 1"]);
    await attempts(id, 1, 3);
    expect(await late()).toEqual(["attempt failed 1", "attempt failed 2"]);
    expect(await lifeOf(id)).toMatchObject({ attempts: 2, replays: 1 });
  });

  test("has a failure without an attempt as such", async () => {
    const { id } = await added();
    await fetch();
    await attempts(id, 1, 1);
    await takeBack(id);
    await fetch();
    await fail(id);
    const life = await lifeOf(id);
    expect(kinds(life)).toEqual(["created", "attempt failed", "failed"]);
    expect(life).toMatchObject({ state: "failed", attempts: 1 });
    expect(stepOf(life, "failed")).toMatchObject({ code: "runner.failed", reason: "500 no" });
  });

  test("has the first 200 characters of a long reason, and no half of a character", async () => {
    const { id } = await added();
    await fetch();
    await fail(id);
    await backend.replay(id, noteOf("otto", `a${"😀".repeat(500)}`));
    const { reason } = stepOf(await lifeOf(id), "replayed") as { reason: string };
    expect([reason.length, reason]).toEqual([200, `a${"😀".repeat(99)}…`]);
  });
});

describe("the life of a webhook's call", () => {
  test.each([true, false])(
    "begins while the call waits, is in flight, and is delayed (with a delivery id: %s)",
    async (isClaimed) => {
      const call = await added({ claimed: isClaimed });
      const waits = await lifeOf(call.id);
      expect(waits).toMatchObject({
        ...{ id: call.id, state: "queued", origin: "webhook", job: "7/1" },
        ...{ place: { queue: QUEUE, as: "waiting", dueAt: undefined }, attempts: 0, replays: 0 },
        head: { metadata: call.metadata, bytes: 5, sha256: call.sha256, accepted_at: call.accepted_at },
        result: { kind: isClaimed ? "pending" : "unknown" },
      });
      expect(kinds(waits)).toEqual(["created"]);
      await fetch();
      expect((await lifeOf(call.id)).place?.as).toBe("active");
      const now = Date.now();
      await backend.moveToDelayed(call.id, now, 60_000, TOKEN, {});
      const { place } = await lifeOf(call.id);
      expect(place).toMatchObject({ queue: QUEUE, as: "delayed" });
      expect(Math.abs(Number(place?.dueAt) - (now + 60_000))).toBeLessThan(5000);
    },
  );

  test.each([true, false])(
    "shows the call as delayed since its last attempt failed, at any age (with a delivery id: %s)",
    async (isClaimed) => {
      const { id } = await added({ claimed: isClaimed, acceptedAt: Date.now() - 3_600_000 });
      await fetch();
      const failedAt = Date.now() - 500;
      const failed = { at: failedAt, code: "runner.failed", reason: "500 no", worker: "w" };
      await records.attemptFailed({ id, queue: QUEUE, take: 1 }, failed, 1);
      await backend.moveToDelayed(id, Date.now(), 60_000, TOKEN, {});
      expect(await lifeOf(id)).toMatchObject({ place: { as: "delayed" }, changedAt: failedAt });
    },
  );

  test("has its failure, its newest attempts, and the numbers of earlier and of all attempts", async () => {
    const { id } = await added();
    await fetch();
    await attempts(id, 7);
    await redis.client.hset(keys.inQueue(QUEUE, id), "ats", 7);
    await fail(id);
    const life = await lifeOf(id);
    expect(life).toMatchObject({ state: "failed", attempts: 7, place: { as: "failed" } });
    expect(life.result).toMatchObject({ kind: "failed", code: "runner.failed", title: "No" });
    expect(kinds(life)).toEqual(["created", ...Array(5).fill("attempt failed"), "failed"]);
    const numbers = life.steps.flatMap((step) => (step.kind === "attempt failed" ? step.n : []));
    expect(numbers).toEqual([3, 4, 5, 6, 7]);
    expect(stepOf(life, "attempt failed")).toMatchObject({ n: 3, missing: 2 });
    expect(stepOf(life, "failed")).toMatchObject({ code: "runner.failed", reason: "500 no 7" });
  });

  test("keeps its order if a clock is slightly behind, and follows clocks that differ more", async () => {
    const { id } = await added();
    const { at = 0 } = stepOf(await lifeOf(id), "created") ?? {};
    let take = 0;
    const steps = async (attemptAt: number) => {
      const failed = { at: attemptAt, code: "runner.failed", reason: "500 no", worker: "w" };
      await records.attemptFailed({ id, queue: QUEUE, take: ++take }, failed, 1);
      return kinds(await lifeOf(id));
    };
    expect(await steps(at - 30)).toEqual(["created", "attempt failed"]);
    expect(await steps(at - 500)).toEqual(["attempt failed", "created", "attempt failed"]);
  });

  test("ends with the runner's answer, without its bytes", async () => {
    const { id } = await added();
    await fetch();
    await attempts(id, 1);
    await inject(id, "x".repeat(100_000));
    const life = await lifeOf(id);
    expect(life).toMatchObject({ state: "injected", job: "7/1", origin: undefined, place: undefined });
    expect(kinds(life)).toEqual(["attempt failed", "result", "injected"]);
    await redis.client.hincrby(keys.record(id), "at", -50);
    expect(kinds(await lifeOf(id))).toEqual(["attempt failed", "injected", "result"]);
    const answered = { status: 200, contentType: "text/plain", bytes: 100_000, by: "answer" };
    expect(stepOf(life, "result")).toMatchObject(answered);
    expect(life.result).toMatchObject({ kind: "answer", ...answered });
    expect(life.result).not.toHaveProperty("body");
    expect([life.head, life.storedBytes]).toEqual([undefined, 0]);
  });

  test("has the progress of a long job", async () => {
    const { id } = await added();
    await fetch();
    const result = { known: "awaited" } as const;
    await backend.injected(id, TOKEN, { fetchNext: undefined, windowMs: 60_000, retried: false, result });
    await tellProgressOn(redis.partition)(id, { at: 7, json: '{"done":3}' });
    expect(stepOf(await lifeOf(id), "progress")).toEqual({ kind: "progress", at: 7, json: '{"done":3}' });
  });

  test("has its callback and the callback's state", async () => {
    const call = { ...aCall(), callback: { url: "https://a.test/", receiver: "a.test" } };
    await createEnqueue(redis.partition)(call);
    await fetch();
    const callback = prepareCallback(call, Date.now());
    const ended = { fetchNext: undefined, windowMs: 60_000, retried: false, callback };
    await backend.injected(call.id, TOKEN, ended);
    const id = callbackId(call.id, "call.completed");
    const expectedCallback = { kind: "callback", ending: "call.completed", id };
    expect(stepOf(await lifeOf(call.id), "callback")).toMatchObject({
      ...expectedCallback,
      state: "queued",
      attempts: 0,
    });
    const queue = callbackQueueOf("7/1", "a.test");
    const receiver = openBackends(redis.partition, WORK)(queue);
    await fetch(receiver);
    const attempt = { at: Date.now(), code: "callback.refused", reason: "500", worker: "w" };
    await records.attemptFailed({ id, queue, take: 1 }, attempt, 1);
    await receiver.injected(id, TOKEN, { fetchNext: undefined, windowMs: 60_000, retried: true });
    expect(stepOf(await lifeOf(call.id), "callback")).toMatchObject({
      ...expectedCallback,
      state: "injected",
      attempts: 2,
    });
  });

  test("has the time when it was forgotten, and no data of its sender", async () => {
    const { id } = await added();
    await fetch();
    await attempts(id, 2);
    await fail(id);
    const forget = createForget({
      partition: redis.partition,
      clock: () => 9e12,
      log: silentLogger,
      by: "me",
    });
    await forget(id, "the law");
    const life = await lifeOf(id);
    expect(life).toMatchObject({ state: "discarded", forgottenAt: 9e12, head: undefined, storedBytes: 0 });
    expect(life.steps).toEqual([
      { kind: "discarded", at: 9e12 },
      { kind: "forgotten", at: 9e12 },
    ]);
    expect(life.result).toEqual({ kind: "gone" });
  });

  test("is undefined for an unknown call, and refused if the record has a state that no process writes", async () => {
    expect(await readLife(`c_${"0".repeat(32)}`)).toBeUndefined();
    const { id } = await added();
    await redis.client.hset(keys.record(id), "st", "LATER");
    await expect(readLife(id)).rejects.toMatchObject({ code: "record.unreadable" });
  });

  test("is read in a few bytes, for any size of body and result", async () => {
    const body = Buffer.alloc(3_000_000, "b");
    const [waits, ended] = [await added({ body }), await added()];
    await fetch();
    await fetch();
    await inject(ended.id, "x".repeat(200_000));
    for (const { id } of [waits, ended]) expect(JSON.stringify(await lifeOf(id)).length).toBeLessThan(4000);
    const sent = async () =>
      Number(/total_net_output_bytes:(\d+)/.exec(await redis.client.info("stats"))?.[1]);
    const before = await sent();
    await lifeOf(waits.id);
    await lifeOf(ended.id);
    expect((await sent()) - before).toBeLessThan(60_000);
    expect((await lifeOf(waits.id)).storedBytes).toBeGreaterThan(4_000_000);
  });
});

describe("the life of a paid call", () => {
  test("begins with its claim, while the payment is not decided", async () => {
    const id = await claimPayment(journal, PAID);
    const life = await lifeOf(id);
    expect(life).toMatchObject({ state: "settling", origin: "x402", job: "1/7", place: undefined });
    expect(life).toMatchObject({
      head: { bytes: PAID.body.length },
      payment: { state: "SETTLING", call: undefined },
    });
    expect(kinds(life)).toEqual(["created", "claimed"]);
    await journal.markForReview(id, "it contradicts itself");
    expect(stepOf(await lifeOf(id), "in review")).toMatchObject({ reason: "it contradicts itself" });
  });

  test("continues with its settlement, its queue and its end", async () => {
    const id = await queuePayment(journal, PAID, true);
    const life = await lifeOf(id);
    // This fixture creates the call after it has taken the time of the claim, so the two steps may have either order.
    expect(kinds(life).slice(0, 2).toSorted()).toEqual(["claimed", "created"]);
    expect(kinds(life).slice(2)).toEqual(["settled", "queued"]);
    expect(stepOf(life, "settled")).toMatchObject({ by: "facilitator", proven: true });
    expect(life).toMatchObject({ state: "queued", place: { queue: "x402/1/7", as: "waiting" } });
    const worker = openBackends(redis.partition, WORK)("x402/1/7");
    await fetch(worker);
    await worker.injected(id, TOKEN, { fetchNext: undefined, windowMs: 60_000, retried: false });
    const ended = await lifeOf(id);
    expect(ended).toMatchObject({ state: "injected", origin: "x402", job: "1/7" });
    expect(kinds(ended).slice(2)).toEqual(["settled", "queued", "injected"]);
  });

  test("ends when the payment is void or refunded", async () => {
    const voided = await claimPayment(journal, PAID);
    const payment = await journal.find(voided);
    if (payment !== undefined)
      await journal.markVoid(payment, { reason: "never paid" }, { now: Date.now(), from: ["SETTLING"] });
    expect(kinds(await lifeOf(voided))).toEqual(["created", "claimed", "void"]);
    const refunded = await queuePayment(journal, PAID, true);
    await redis.client.hset(keys.record(refunded), { st: "REFUNDED", at: 9e12, late: 8e12 });
    await redis.client.hset(keys.payment(refunded), {
      refund: JSON.stringify({ export: "r_1", at: 7e12, block: "1" }),
      refunded: JSON.stringify({ transaction: "0xb", position: 0, block: "2", from: "0xc" }),
    });
    const { steps } = await lifeOf(refunded);
    expect(steps.slice(-3)).toEqual([
      { kind: "refund exported", at: 7e12, export: "r_1" },
      { kind: "injected late", at: 8e12 },
      { kind: "refunded", at: 9e12, transaction: "0xb" },
    ]);
  });
});

describe("the body of a call", () => {
  test("is read from its queue, or from the journal before it is paid", async () => {
    const readBody = createReadBody(redis.partition);
    const body = Buffer.from([0, 255, 10]);
    expect(await readBody((await added({ body })).id)).toEqual(body);
    expect(await readBody(await claimPayment(journal, PAID))).toEqual(PAID.body);
    expect(await readBody(await queuePayment(journal, PAID))).toEqual(PAID.body);
  });

  test("is undefined once it is no longer kept", async () => {
    const { id } = await added();
    await fetch();
    await inject(id);
    expect(await createReadBody(redis.partition)(id)).toBeUndefined();
  });
});

test("a call with only a line in the history has the times and the number of attempts of that line", async () => {
  const call = aCall({ accepted_at: 1000 });
  const endedAt = Date.now();
  const limits = { keptMs: 3_600_000, calls: 10, bytes: 100_000 };
  const history = createCallHistory({
    ...{ partition: redis.partition, limits, log: silentLogger },
    clock: () => endedAt,
  });
  history.add(call, { attempts: 3 });
  await history.stop();
  const known = { state: "injected", origin: "webhook", job: "7/1", place: undefined, changedAt: endedAt };
  expect(await lifeOf(call.id)).toMatchObject({ ...known, attempts: 3, remembered: { endpoint: "/a" } });
  expect((await lifeOf(call.id)).steps).toEqual([
    { kind: "created", at: 1000 },
    { kind: "injected", at: endedAt, n: 3, missing: 2 },
  ]);
});
