import { setTimeout } from "node:timers/promises";
import { beforeEach, describe, expect, test } from "vitest";
import { NotNow, Refused } from "../../../services/producer/retry-policy.ts";
import { callIdOfSignedDelivery } from "../../../shared/call/call-id.ts";
import type { JobCall } from "../../../shared/call/job-call.ts";
import { createCountFacets } from "../../../shared/call-search/facets.ts";
import { createForget } from "../../../shared/call-search/forget.ts";
import type { CallSearch, PageCursor } from "../../../shared/call-search/found-call.ts";
import { createCallHistory } from "../../../shared/call-search/history/keep.ts";
import { createSearchCalls } from "../../../shared/call-search/search.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { createDiscard } from "../../../shared/queue/discard.ts";
import { createFailedCalls } from "../../../shared/queue/failed.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { keys } from "../../fixtures/redis.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { claimPayment } from "../../support/made-payment.ts";
import { partitionsOver } from "../../support/partitions.ts";

const fixture = useProducer();
const ends = useEnds();

const LIMITS = { keptMs: 3_600_000, calls: 10_000, bytes: 1_000_000 };

beforeEach(() => fixture.redis.client.flushdb());

function webhook(path: string, deliveryId?: string, fields: Partial<JobCall> = {}): JobCall {
  const { body: _, ...rest } = fields;
  const call = aCall(rest);
  const given = { "X-WEBHOOK-PATH": path, ...(deliveryId && { "X-WEBHOOK-DELIVERY-ID": deliveryId }) };
  return { ...call, metadata: { ...call.metadata, ...given } };
}

const search = (
  asked: CallSearch,
  page?: { limit?: number; after?: PageCursor | undefined },
  paths: string[] = [],
) =>
  createSearchCalls(partitionsOver(fixture.redis.client), { paths: () => paths, patienceMs: 5000 })(
    asked,
    page,
  );

const idsOf = async (asked: CallSearch) => (await search(asked)).calls.map(({ id }) => id);

/** Has a producer bring these calls to their end: those with the path /refused fail. */
async function run(calls: readonly JobCall[]): Promise<void> {
  for (const call of calls) await fixture.add(call);
  const { producer, saw } = fixture.start({
    origins: ["webhook", "x402"],
    history: { history_secs: 3600, history_max: LIMITS.calls, history_bytes_max: LIMITS.bytes },
    async inject({ call }) {
      if (call.metadata["X-WEBHOOK-PATH"] === "/refused") throw new Refused("it says no");
    },
  });
  const refused = calls.filter(({ metadata }) => metadata["X-WEBHOOK-PATH"] === "/refused").length;
  await saw("call.injected", calls.length - refused);
  await saw("call.failed", refused);
  await producer.close(3000);
}

test("calls are found by a prefix of their ids: waiting, failed, injected, and a void payment", async () => {
  const [injected, failed, waiting] = ["1", "2", "3"].map((digit) => `c_abcd${digit.repeat(28)}`) as [
    ...[string, string, string],
  ];
  await run([webhook("/a", "1", { id: injected }), webhook("/refused", "2", { id: failed })]);
  const journal = new PaymentJournal(fixture.redis.partition);
  const paid = await claimPayment(journal, { network: "eip155:1", asset: "0xabc" });
  const payment = await journal.find(paid);
  if (payment === undefined) throw new Error("it was not claimed");
  await journal.markVoid(payment, { reason: "it was never made" }, { now: 0 });
  await fixture.add(webhook("/a", "3", { id: waiting }));
  expect((await idsOf({ id: "c_abcd" })).toSorted()).toEqual([injected, failed, waiting]);
  for (const id of [injected, failed, waiting, paid])
    expect(await idsOf({ id: id.slice(0, 14) })).toEqual([id]);
  expect(await idsOf({ id: "c_abcde0" })).toEqual([]);
});

describe("a call is found in any place, by all that is known of it:", () => {
  test("an injected, a failed and a waiting call", async () => {
    const injected = webhook("/a", "delivery 1");
    const failed = webhook("/refused", "delivery 2");
    await run([injected, failed]);
    const waiting = webhook("/a", "delivery 3");
    await fixture.add(waiting);

    const { calls, next, isComplete } = await search({});
    expect({ next, isComplete }).toEqual({ next: undefined, isComplete: true });
    expect(calls.map(({ id }) => id)).toEqual(expect.arrayContaining([injected.id, failed.id, waiting.id]));
    expect(calls).toHaveLength(3);
    const places = { origin: "webhook", job: "7/1" };
    for (const [asked, expected] of [
      [{ deliveryId: "delivery 1" }, { id: injected.id, state: "injected", endpoint: "/a", attempts: 1 }],
      [
        { deliveryId: "delivery 2" },
        {
          id: failed.id,
          state: "failed",
          endpoint: "/refused",
          code: "runner.refused",
          reason: "it says no",
        },
      ],
      [{ deliveryId: "delivery 3" }, { id: waiting.id, state: "waiting", endpoint: "/a", attempts: 0 }],
    ] as const) {
      const found = [
        expect.objectContaining({ ...asked, ...expected, ...places, acceptedAt: expect.any(Number) }),
      ];
      expect((await search(asked)).calls).toEqual(found);
      expect((await search({ id: expected.id })).calls).toEqual(found);
      expect((await search({ ...asked, state: expected.state })).calls).toEqual(found);
      expect((await search({ ...asked, job: "7/2" })).calls).toEqual([]);
      expect((await search({ ...asked, until: 1000 })).calls).toEqual([]);
    }
    expect(await idsOf({ state: "failed" })).toEqual([failed.id]);
    expect((await idsOf({ endpoint: "/a" })).sort()).toEqual([injected.id, waiting.id].sort());
    expect(await idsOf({ origin: "x402" })).toEqual([]);
  });

  test("a sale by its payer and its transaction, while its payment is in progress and after its job", async () => {
    const journal = new PaymentJournal(fixture.redis.partition);
    const payer = `0x${"a".repeat(40)}`;
    const settling = await claimPayment(journal, { network: "eip155:1", asset: "0xabc", payer });
    const metadata = { "X-X402-PAYER": payer, "X-X402-TRANSACTION": "0xfeed" };
    const ended = aCall({ origin: "x402", metadata });
    await run([ended]);
    expect((await idsOf({ payer })).sort()).toEqual([settling, ended.id].sort());
    expect((await search({ transaction: "0xfeed" })).calls).toMatchObject([
      { id: ended.id, state: "injected", origin: "x402", payer, endpoint: undefined },
    ]);
    expect((await search({ state: "settling" })).calls).toMatchObject([{ id: settling, job: "1/7", payer }]);
    expect((await search({ id: settling })).calls).toMatchObject([{ state: "settling" }]);
    expect(await idsOf({ payer, state: "review" })).toEqual([]);
  });

  test("a delivery to a known endpoint by its id, even if only the record of its call is left", async () => {
    const id = callIdOfSignedDelivery("/signed", "delivery 9");
    const call = webhook("/signed", "delivery 9", { id });
    await fixture.add(call, { by: "a test", bodySha256: "", windowMs: 60_000 });
    const { producer, saw } = fixture.start({ inject: async () => {} });
    await saw("call.injected");
    await producer.close(3000);
    expect((await search({ deliveryId: "delivery 9" })).calls).toEqual([]);
    const found = [{ id, state: "injected", deliveryId: "delivery 9" }];
    expect((await search({ deliveryId: "delivery 9" }, {}, ["/other", "/signed"])).calls).toMatchObject(
      found,
    );
    expect((await search({ id })).calls).toMatchObject([{ id, state: "injected" }]);
    expect((await search({ id: "c_00000000000000000000000000000000" })).calls).toEqual([]);
  });
});

describe("a discarded call of which only the record is left", () => {
  const deliveryId = "delivery 8";
  const id = callIdOfSignedDelivery("/refused", deliveryId);
  const found = { id, state: "discarded", origin: "webhook", endpoint: "/refused", deliveryId };

  beforeEach(async () => {
    const { partition } = fixture.redis;
    await fixture.add(webhook("/refused", deliveryId, { id }), {
      by: "a test",
      bodySha256: "",
      windowMs: 60_000,
    });
    const { producer, saw } = fixture.start({
      async inject() {
        throw new Refused("it says no");
      },
    });
    await saw("call.failed");
    await producer.close(3000);
    const failed = await createFailedCalls(partition).find(id);
    if (failed === undefined) throw new Error("it has not failed");
    const discard = createDiscard({ partition, clock: systemClock, log: silentLogger, by: "me@here" });
    expect(await discard(failed, { selection: "a test" })).toBe("done");
  });

  test("is found by its delivery id together with any other known value", async () => {
    for (const more of [
      ...([{}, { origin: "webhook" }, { state: "discarded" }, { job: "7/1" }] as const),
      { origin: "webhook", state: "discarded", job: "7/1", since: 1000 } as const,
    ]) {
      const { calls, isComplete } = await search({ deliveryId, endpoint: "/refused", ...more });
      expect(calls).toMatchObject([found]);
      expect(isComplete).toBe(true);
      expect((await search({ deliveryId, ...more }, {}, ["/refused"])).calls).toMatchObject([found]);
    }
    expect((await search({ deliveryId, endpoint: "/refused", origin: "x402" })).calls).toEqual([]);
  });

  test("is not found by its state: such a search says that it is incomplete", async () => {
    for (const state of ["discarded", "missing"] as const) {
      expect(await search({ state })).toMatchObject({ calls: [], isComplete: false, isUnlisted: true });
      expect(await search({ state, deliveryId })).toMatchObject({ isComplete: false });
    }
    expect(await search({ state: "discarded", origin: "x402" })).toMatchObject({
      ...{ isComplete: true, isUnlisted: false },
    });
    expect(await search({ state: "discarded", id })).toMatchObject({ calls: [{ id }], isComplete: true });
  });
});

describe("a text finds calls in any place:", () => {
  const ids = {
    injected: `c_abcd${"1".repeat(28)}`,
    failed: `c_abcd${"2".repeat(28)}`,
    waiting: `c_abcd${"3".repeat(28)}`,
  };
  const named = (path: string, deliveryId: string, event: string, id: string) => {
    const call = webhook(path, deliveryId, { id });
    return { ...call, metadata: { ...call.metadata, "X-WEBHOOK-EVENT": event } };
  };
  const idsBy = async (text: string) => (await idsOf({ text })).toSorted();
  const payer = `0x${"b".repeat(40)}`;

  beforeEach(async () => {
    await run([
      named("/hooks/shop", "evt_1a", "order.created", ids.injected),
      named("/refused", "evt_1b", "order.paid", ids.failed),
    ]);
    await fixture.add(named("/hooks/shop", "evt_2", "user.created", ids.waiting));
  });

  test("by the beginning of an id, ignoring case, but not by a later part of it", async () => {
    expect(await idsBy("C_ABCD")).toEqual(Object.values(ids));
    expect(await idsBy(ids.failed)).toEqual([ids.failed]);
    expect(await idsBy("EVT_1")).toEqual([ids.injected, ids.failed]);
    for (const text of ["abcd", "vt_1", "evt_1c"]) expect(await idsBy(text)).toEqual([]);
  });

  test("by a part of the event type, of the endpoint and of the error; and by the whole job", async () => {
    expect(await idsBy("order.")).toEqual([ids.injected, ids.failed]);
    expect(await idsBy("Created")).toEqual([ids.injected, ids.waiting]);
    expect(await idsBy("shop")).toEqual([ids.injected, ids.waiting]);
    expect(await idsBy("says NO")).toEqual([ids.failed]);
    expect(await idsBy("runner.refused: it")).toEqual([ids.failed]);
    expect(await idsBy("7/1")).toEqual(Object.values(ids));
    expect(await idsBy("7/")).toEqual([]);
  });

  test("by the beginning of a payer or a transaction, even of a void payment", async () => {
    const journal = new PaymentJournal(fixture.redis.partition);
    const id = await claimPayment(journal, { network: "eip155:1", asset: "0xabc", payer });
    const payment = await journal.find(id);
    if (payment === undefined) throw new Error("it was not claimed");
    await journal.markVoid(payment, { reason: "it was never made" }, { now: 0 });
    await run([
      aCall({
        id: `c_${"e".repeat(32)}`,
        origin: "x402",
        metadata: { "X-X402-PAYER": payer, "X-X402-TRANSACTION": "0xFEED" },
      }),
    ]);
    expect(await idsBy("0xBBBB")).toEqual([id, `c_${"e".repeat(32)}`].toSorted());
    expect(await idsBy("0xfeed")).toEqual([`c_${"e".repeat(32)}`]);
    expect(await idsOf({ payer })).toHaveLength(2);
  });

  test("with a filter, only calls that match both", async () => {
    expect(await idsOf({ text: "evt_1", state: "failed" })).toEqual([ids.failed]);
    expect(await idsOf({ text: "evt_1", event: "order.created" })).toEqual([ids.injected]);
    expect(await idsOf({ text: "evt_1", code: "runner.refused" })).toEqual([ids.failed]);
    expect(await idsOf({ text: "evt_1", until: 1000 })).toEqual([]);
  });

  test("the facets count every matching call by state, endpoint, job, event type and error code", async () => {
    const count = createCountFacets(partitionsOver(fixture.redis.client), {
      paths: () => [],
      patienceMs: 5000,
    });
    expect(await count({ text: "c_abcd" })).toEqual({
      matched: 3,
      isComplete: true,
      isUnlisted: false,
      facets: {
        state: { values: ["failed", "injected", "waiting"].map((value) => ({ value, count: 1 })), others: 0 },
        endpoint: {
          values: [
            { value: "/hooks/shop", count: 2 },
            { value: "/refused", count: 1 },
          ],
          others: 0,
        },
        job: { values: [{ value: "7/1", count: 3 }], others: 0 },
        event: {
          values: ["order.created", "order.paid", "user.created"].map((value) => ({ value, count: 1 })),
          others: 0,
        },
        code: { values: [{ value: "runner.refused", count: 1 }], others: 0 },
      },
    });
    expect(await count({ id: ids.failed })).toMatchObject({ matched: 1 });
    expect(await count({ state: "discarded" })).toMatchObject({ matched: 0, isComplete: false });
  });
});

test("a facet has the ten most frequent values, and the number of calls with other values", async () => {
  const { partition } = fixture.redis;
  const history = createCallHistory({ partition, limits: LIMITS, clock: Date.now, log: silentLogger });
  ends.defer(history.stop);
  for (let n = 0; n < 1200; n++) {
    const call = webhook("/a");
    const event = n < 100 ? "frequent" : `event ${n}`;
    history.add({ ...call, metadata: { ...call.metadata, "X-WEBHOOK-EVENT": event } }, { attempts: 1 });
  }
  await history.flush();
  const count = createCountFacets(partitionsOver(fixture.redis.client), {
    paths: () => [],
    patienceMs: 5000,
  });
  const { matched, facets } = await count({});
  expect(matched).toBe(1200);
  expect(facets.event.values).toHaveLength(10);
  expect(facets.event.others).toBe(1200 - facets.event.values.reduce((sum, each) => sum + each.count, 0));
});

test("a call that failed and was injected later is found by its error, and a delayed call by the error of its last attempt", async () => {
  const [later, delayed] = [webhook("/a", "1"), webhook("/b", "2", { job_id: 3 })];
  for (const call of [later, delayed]) await fixture.add(call);
  await setTimeout(20);
  const startedAt = Date.now();
  let attempts = 0;
  const { producer, saw } = fixture.start({
    history: { history_secs: 3600, history_max: LIMITS.calls, history_bytes_max: LIMITS.bytes },
    async inject({ call }) {
      if (call.id === delayed.id) throw new NotNow("the shelf is full", 60_000);
      attempts += 1;
      if (attempts === 1) throw new Error("the printer is on fire");
    },
  });
  await saw("call.injected");
  await saw("call.delayed", 2);
  await producer.close(3000);
  const { calls } = await search({ text: "PRINTER" });
  expect(calls).toMatchObject([
    { id: later.id, state: "injected", reason: expect.stringContaining("on fire"), attempts: 2 },
  ]);
  const [found] = (await search({ text: "shelf" })).calls;
  expect(found).toMatchObject({ id: delayed.id, state: "delayed" });
  expect(found?.at).toBeGreaterThanOrEqual(startedAt);
  expect((await search({ id: delayed.id })).calls).toEqual([found]);
});

test("a search for queued calls finds all accepted calls that have not ended, including one that its queue has lost, as missing", async () => {
  const waiting = webhook("/a", "1");
  const lost = webhook("/a", "2");
  await run([webhook("/a", "3"), webhook("/refused", "4")]);
  await fixture.add(waiting);
  await fixture.redis.client.hset(keys.record(lost.id), { st: "QUEUED", at: "1000", jb: "7/1" });
  expect(await search({ state: "queued" })).toMatchObject({
    calls: [{ id: waiting.id, state: "waiting" }],
    isComplete: true,
  });
  for (const state of [undefined, "missing", "queued"] as const)
    expect((await search({ id: lost.id, state })).calls).toMatchObject([{ id: lost.id, state: "missing" }]);
  expect((await search({ id: lost.id, state: "waiting" })).calls).toEqual([]);
});

test("pages have no call twice and omit none, even if calls change in between", async () => {
  const clock = { now: Date.now() - 100_000 };
  const { partition } = fixture.redis;
  const history = createCallHistory({ partition, limits: LIMITS, clock: () => clock.now, log: silentLogger });
  ends.defer(history.stop);
  const ids: string[] = [];
  for (let n = 0; n < 60; n++) {
    const call = webhook("/a");
    ids.push(call.id);
    history.add(call, { attempts: 1 });
    if (n < 30 ? n % 4 === 3 : n === 45) clock.now += 1; // so that pages begin and end within calls of the same time
  }
  await history.flush();
  const seen: string[] = [];
  for (let after: PageCursor | undefined, n = 0; n < 20; n++) {
    const { calls, next } = await search({ state: "injected" }, { limit: 7, after });
    seen.push(...calls.map(({ id }) => id));
    await fixture.add(webhook("/new"));
    if (next === undefined) break;
    after = next;
  }
  expect(seen.sort()).toEqual(ids.sort());
});

onlyInLongRun(() => {
  test("the result says if a queue holds more calls than were read", async () => {
    for (let n = 0; n < 21; n++)
      await Promise.all(Array.from({ length: 50 }, () => fixture.add(webhook("/a"))));
    const { calls, isComplete } = await search({ state: "waiting" }, { limit: 2000 });
    expect([calls.length, isComplete]).toEqual([1000, false]);
  });
});

const forgetting = () =>
  createForget({ partition: fixture.redis.partition, clock: systemClock, log: silentLogger, by: "me@here" });

test("a forgotten call is not found by its sender's data", async () => {
  const call = webhook("/a", "delivery 1");
  await run([call]);
  expect(await idsOf({ deliveryId: "delivery 1" })).toEqual([call.id]);
  expect(await forgetting()(call.id, "a test")).toEqual({ kind: "done" });
  expect(await idsOf({ deliveryId: "delivery 1" })).toEqual([]);
});

test("a call with only a line in the history can be forgotten, with a line in the audit log, even after an interruption", async () => {
  const call = webhook("/a", "delivery 1");
  await run([call]);
  await fixture.redis.client.del(keys.record(call.id));
  expect(await forgetting()(call.id, "a test")).toEqual({ kind: "done" });
  expect(await fixture.redis.client.xlen(keys.audit("acts"))).toBe(1);
  expect(await idsOf({ deliveryId: "delivery 1" })).toEqual([]);

  const again = webhook("/a", "delivery 2");
  await run([again]);
  await fixture.redis.client.hset(keys.record(again.id), "fg", "1");
  expect(await forgetting()(again.id, "a test")).toEqual({ kind: "before", at: 1 });
  expect(await idsOf({ deliveryId: "delivery 2" })).toEqual([]);
});
