import { expect, test } from "vitest";
import { createPaymentList } from "../../../shared/payments/list.ts";
import { PAYMENT_STATES, type Payment, type Settlement } from "../../../shared/payments/payment.ts";
import { openBackends } from "../../../shared/queue/backend.ts";
import { createCallRecords } from "../../../shared/queue/call-record.ts";
import { usePayments } from "../../fixtures/payments.ts";
import { keys } from "../../fixtures/redis.ts";
import { makePayment, UNBOUNDED } from "../../support/made-payment.ts";
import { openQueues } from "../../support/queues.ts";
import { WORK } from "../../support/results.ts";
import { randomNonce } from "../../support/sign-payment.ts";

const payments = usePayments();

const PAYER = `0x${"33".repeat(20)}`;
const DAY_MS = 86_400_000;
const settlement = {
  transaction: `0x${"ab".repeat(32)}`,
  network: "eip155:84532",
  payer: PAYER,
  by: "facilitator",
} as const;

async function found(id: string): Promise<Payment> {
  const payment = await payments.gateway.journal.find(id);
  if (payment === undefined) throw new Error(`${id} is not there`);
  return payment;
}

/** Milliseconds until the record and the payment expire. -1 means never. */
const ttls = (id: string) =>
  Promise.all([payments.redis.client.pttl(keys.record(id)), payments.redis.client.pttl(keys.payment(id))]);

/** All existing keys, except the depth of the queues, because the gateway writes this key and it expires during the test. */
async function keysThere(): Promise<string[]> {
  const there = await payments.redis.client.keys("*");
  return there.filter((key) => key !== keys.depth("x402")).sort();
}

test("a payment that is not final never expires, and one that is final is remembered for as long as is promised", async () => {
  const { journal } = payments.gateway;
  const id = await payments.claim({ payer: PAYER });
  expect(await ttls(id)).toEqual([-1, -1]);
  await journal.markForReview(id, "the node lacks logs");
  expect(await ttls(id)).toEqual([-1, -1]);
  expect(
    await payments.redis.client.zscore(keys.paymentsDue, id),
    "the reconciler no longer lists the payment",
  ).toBeNull();
  const settled = { settlement, proven: true };
  await journal.enqueueSettled(await found(id), settled, { dueInMs: DAY_MS, from: ["REVIEW"] });
  expect(await ttls(id)).toEqual([-1, -1]);

  await journal.markEnded(await found(id));
  for (const ttl of await ttls(id)) expect(Math.round(ttl / DAY_MS)).toBe(30);

  const decided = { by: "me", reason: "seen" };
  const HOUR_MS = 3_600_000;
  for (const [ending, hours] of [[{}, 1] as const, [{ decided }, 24] as const]) {
    const voided = await found(await payments.claim({ payer: PAYER }));
    await journal.markVoid(voided, { reason: "it expired", ...ending }, { now: Date.now() });
    const untilEndMs = Math.max(0, Number(voided.terms.valid_before) * 1000 - Date.now());
    for (const ttl of await ttls(voided.id)) expect(Math.round((ttl - untilEndMs) / HOUR_MS)).toBe(hours);
  }
});

test("a void payment uses up no caller's nonce, and releases none that another payment has used", async () => {
  const { journal } = payments.gateway;
  const isUsed = async (nonce: string) => (await payments.redis.client.exists(keys.callerNonce(nonce))) === 1;
  const [mine, theirs] = ["a".repeat(64), "b".repeat(64)];
  const id = await payments.claim({ payer: PAYER, callerNonce: mine });
  await payments.claim({ payer: PAYER, callerNonce: theirs });
  expect([await isUsed(mine), await isUsed(theirs)]).toEqual([true, true]);
  await journal.markVoid(await found(id), { reason: "it expired" }, { now: Date.now() });
  expect([await isUsed(mine), await isUsed(theirs)]).toEqual([false, true]);
});

test("a claim whose caller's nonce or quote has expired by Redis' clock is refused and uses up nothing, even if the gateway's clock disagrees", async () => {
  const { journal } = payments.gateway;
  const over = Date.now() - 1000;
  const uses = {
    nonce_expired: { callerNonce: { hash: "c".repeat(64), keptUntil: over } },
    quote_expired: { quoteUse: { digest: `0x${"d".repeat(64)}`, keptUntil: over } },
  };
  const before = await keysThere();
  for (const [kind, use] of Object.entries(uses)) {
    const payment = { ...makePayment({ network: "eip155:84532", asset: "0x1" }), ...use };
    expect(await journal.claim(payment, { ...UNBOUNDED, by: "a test", dueInMs: DAY_MS })).toEqual({ kind });
  }
  expect(await keysThere()).toEqual(before);
});

test("a settle request is counted only in the states asked for, while the payment is young enough by Redis' clock", async () => {
  const { journal } = payments.gateway;
  const id = await payments.claim({ payer: PAYER, now: Date.now() - 10_000 });
  expect(await journal.markDispatching(id, 9000)).toBe(false);
  expect((await found(id)).dispatches).toBe(1);
  expect(await journal.markDispatching(id, 60_000)).toBe(true);
  expect((await found(id)).dispatches).toBe(2);
  const from = { from: ["QUEUED", "INJECTED"] } as const;
  expect(await journal.markDispatching(id, 60_000, from)).toBe(false);
  expect((await found(id)).dispatches).toBe(2);
});

test("of two claims of one payment, for two jobs or two bodies, the second is a conflict", async () => {
  const { journal } = payments.gateway;
  const nonce = randomNonce();
  const first = await found(await payments.claim({ payer: PAYER, nonce }));
  const { call, request, route, facilitator, terms, sinceBlock } = first;
  if (call === undefined || request === undefined) throw new Error("a payment that is open has its call");
  const names = { identifier: undefined, idempotencyKey: undefined, signedSha256: undefined };
  const again = { call, request, route, facilitator, terms, sinceBlock, ...names };
  const claim = (changed: object, by = "another request") =>
    journal.claim(
      { ...again, callerNonce: undefined, quoteUse: undefined, ...changed },
      { ...UNBOUNDED, by, dueInMs: DAY_MS },
    );
  expect(await claim({}, "a test"), "the request that made it, after a lost reply").toMatchObject({
    kind: "new",
  });
  expect(await claim({})).toEqual({ kind: "known", id: first.id });
  expect(await claim({ route: "/x402/jobs/1/8" })).toEqual({ kind: "conflict" });
  expect(await claim({ call: { ...call, sha256: "0".repeat(64) } })).toEqual({ kind: "conflict" });
});

test("a claim with two identifiers that finds one purchase is a repeat, and one that finds two is a conflict and claims nothing", async () => {
  const { journal } = payments.gateway;
  const claim = (names: object) => {
    const payment = { ...makePayment({ network: "eip155:84532", asset: "0x1" }), ...names };
    return journal
      .claim(payment, { ...UNBOUNDED, by: "a test", dueInMs: DAY_MS })
      .then((claimed) => ({ id: payment.call.id, claimed }));
  };
  const [one, two, digest] = ["one_0123456789abcdef", "two_0123456789abcdef", `0x${"d".repeat(64)}`];
  const quoteUse = { digest, keptUntil: Date.now() + DAY_MS };
  const first = await claim({ identifier: one, idempotencyKey: one });
  const second = await claim({ idempotencyKey: two, quoteUse });
  expect([first.claimed.kind, second.claimed.kind]).toEqual(["new", "new"]);
  const before = await keysThere();
  const known = (id: string) => ({ kind: "known", id });
  const conflict = { kind: "identifier_conflict" };
  expect((await claim({ identifier: one, idempotencyKey: "new" })).claimed).toEqual(known(first.id));
  expect((await claim({ identifier: "new", idempotencyKey: two, quoteUse })).claimed).toEqual(
    known(second.id),
  );
  expect((await claim({ identifier: one, idempotencyKey: two })).claimed).toEqual(conflict);
  expect((await claim({ identifier: two, idempotencyKey: one })).claimed).toEqual(conflict);
  const route = "/x402/jobs/1/8";
  expect((await claim({ identifier: one, idempotencyKey: "new", route })).claimed).toEqual(conflict);
  expect((await claim({ identifier: "new", idempotencyKey: two, route })).claimed).toEqual({
    kind: "idempotency_key_reused",
  });
  expect((await claim({ identifier: one, quoteUse })).claimed).toEqual(conflict);
  expect((await claim({ identifier: "new", quoteUse })).claimed).toEqual({ kind: "quote_used" });
  expect(await keysThere()).toEqual(before);
});

test("findWithoutCall reads the whole payment except its call, and adds the call's size", async () => {
  const { journal } = payments.gateway;
  const id = await payments.claim({ payer: PAYER });
  const { call, ...rest } = await found(id);
  expect(rest.callBytes).toBe(Buffer.byteLength(JSON.stringify(call)));
  expect(await journal.findWithoutCall(id)).toEqual({ ...rest, readAt: expect.any(Number), call: undefined });

  await journal.markVoid(await found(id), { reason: "it expired" }, { now: Date.now() });
  expect(await journal.findWithoutCall(id)).toMatchObject({ state: "VOID", callBytes: 0 });
});

test("a settled payment's call is in its queue as it was claimed, with the transaction among its metadata", async () => {
  const { journal } = payments.gateway;
  const { devnet } = payments;
  const queues = openQueues(payments.redis.client);
  const metadata = { "X-X402-PAYER": "0x1", body: '","metadata":{"', "}": "{}" };
  for (const body of [Buffer.alloc(0), Buffer.from([0, 255, 10, 13]), Buffer.alloc(300_001, "ü")]) {
    for (const known of [metadata, {}]) {
      const payment = makePayment({ network: devnet.network, asset: devnet.token, body });
      const call = { ...payment.call, metadata: known, later: { metadata: {} } };
      await journal.claim({ ...payment, call }, { ...UNBOUNDED, by: "a test", dueInMs: DAY_MS });
      const transaction = `0x"\\/\u2028\n${"ü".repeat(20)}`;
      const settled = { settlement: { ...settlement, transaction }, proven: false };
      expect(await journal.enqueueSettled(await found(call.id), settled, { dueInMs: 0 })).toBe("SETTLING");
      const queued = await queues.find(call.id);
      expect(queued?.data).toEqual({ ...call, metadata: { ...known, "X-X402-TRANSACTION": transaction } });
      expect(await journal.enqueueSettled(await found(call.id), settled, { dueInMs: 0 })).toBe("QUEUED");
    }
  }
});

test("a paid call that is added to its queue again continues the count of its takes, and so of its attempts", async () => {
  const { journal } = payments.gateway;
  const { redis, devnet } = payments;
  const payment = makePayment({ network: devnet.network, asset: devnet.token });
  const { id, service_id, job_id } = payment.call;
  const queue = `x402/${service_id}/${job_id}` as const;
  await journal.claim(payment, { ...UNBOUNDED, by: "a test", dueInMs: DAY_MS });
  await journal.enqueueSettled(await found(id), { settlement, proven: true }, { dueInMs: DAY_MS });
  const attempt = { at: 1, code: "runner.failed", reason: "500", worker: "w" };
  const records = createCallRecords(redis.partition);
  for (const take of [1, 2]) await records.attemptFailed({ id, queue, take }, attempt, 1);
  await openQueues(redis.client).remove(id);
  expect(await journal.enqueueAgain(await found(id))).toBe("QUEUED");
  const taken = await openBackends(
    redis.partition,
    WORK,
  )(queue).fetch("worker:1", {
    ...{ bytes: undefined, alone: false },
  });
  expect(taken).toMatchObject({ kind: "call", id, attemptsStarted: 3, attemptsBefore: 2 });
  await records.attemptFailed({ id, queue, take: 3 }, attempt, 1);
  expect((await records.attempts(id)).map(({ n }) => n)).toEqual([1, 2, 3]);
});

test.each([
  [
    "a state that no process writes",
    (key: string) => payments.redis.client.hset(key, "st", "SETTLING QUEUED"),
  ],
  ["a key of another type", (key: string) => payments.redis.client.set(key, "SETTLING")],
])("a payment whose record is %s is neither read nor changed: record.unreadable", async (_, damage) => {
  const { journal } = payments.gateway;
  const id = await payments.claim({ payer: PAYER });
  const payment = await found(id);
  await damage(keys.record(id));
  const stored = () =>
    Promise.all([keys.record(id), keys.payment(id)].map((key) => payments.redis.client.dump(key)));
  const before = await stored();
  const act = { at: 1, action: "drop", callId: id, by: "otto", selection: "by id" } as const;
  for (const touch of [
    () => journal.find(id),
    () => journal.findWithoutCall(id),
    () => journal.enqueueSettled(payment, { settlement, proven: true }, { dueInMs: 0 }),
    () => journal.enqueueAgain(payment),
    () => journal.markVoid(payment, { reason: "it expired" }, { now: Date.now() }),
    () => journal.markForReview(id, "why not"),
    () => journal.markDispatching(id, 60_000),
    () => journal.markProven(payment, { ...settlement, position: 1 }),
    () => journal.markDisputed(id, "the chain says: expired"),
    () => journal.drop(id, { by: "otto", reason: "no" }, act),
    () => journal.markEnded(payment),
  ])
    await expect(touch()).rejects.toMatchObject({ code: "record.unreadable" });
  expect(await stored()).toEqual(before);
});

test("a payment without its call is not settled, and one whose state or terms cannot be read is listed as such", async () => {
  const { journal } = payments.gateway;
  const { client, partition } = payments.redis;
  const [whole = "", strange = "", broken = ""] = await Promise.all(
    Array.from({ length: 3 }, () => payments.claim({ payer: PAYER })),
  );
  const payment = await found(whole);
  await client.hset(keys.payment(whole), "call", "?");
  const settle = journal.enqueueSettled(payment, { settlement, proven: true }, { dueInMs: 0 });
  await expect(settle).rejects.toMatchObject({ code: "record.unreadable" });
  expect(await client.hget(keys.record(whole), "st")).toBe("SETTLING");

  await client.hset(keys.record(strange), "st", "LATER");
  await client.hset(keys.payment(broken), { terms: "?", since_block: "?" });
  const listed = await createPaymentList(partition).read([strange, broken]);
  const reason = "the stored payment cannot be read";
  expect(listed).toMatchObject([
    { id: strange, state: "LATER", reason },
    { id: broken, state: "SETTLING", reason, terms: { amount: "0" } },
  ]);
});

test("each state of a record is one that the scripts know", async () => {
  const { journal } = payments.gateway;
  for (const state of PAYMENT_STATES) {
    const id = await payments.claim({ payer: PAYER });
    await payments.redis.client.hset(keys.record(id), "st", state);
    await expect(journal.markForReview(id, "x")).resolves.toBe(state);
    await payments.redis.client.del(keys.record(id), keys.payment(id));
    await payments.gateway.journal.forget(id);
  }
});

test("a transfer pays for only one call, even if it is reported again, and is remembered as long as that call", async () => {
  const { journal } = payments.gateway;
  const claim = async () => found(await payments.claim({ payer: PAYER }));
  const [first, second, third] = [await claim(), await claim(), await claim()];
  const shown = { ...settlement, position: 3 };
  const at = { dueInMs: DAY_MS };
  const enqueue = (payment: Payment, its: Settlement) =>
    journal.enqueueSettled(payment, { settlement: its, proven: false }, at);

  expect(await enqueue(first, shown)).toBe("SETTLING");
  expect(await enqueue(first, shown)).toBe("QUEUED");
  expect(await enqueue(second, shown)).toBe("TRANSFER_TAKEN");
  const upper = { ...shown, transaction: shown.transaction.toUpperCase().replace("0X", "0x") };
  expect(await enqueue(second, upper)).toBe("TRANSFER_TAKEN");
  expect((await found(second.id)).state).toBe("SETTLING");
  expect(await openQueues(payments.redis.client).countIn("wait")).toBe(1);
  expect(await enqueue(second, { ...shown, position: 4 })).toBe("SETTLING");

  expect(await enqueue(third, settlement)).toBe("SETTLING");
  const queued = await found(third.id);
  expect(await journal.markProven(queued, shown)).toBe("TRANSFER_TAKEN");
  expect((await found(queued.id)).proven).toBe(false);
  expect(await journal.markProven(queued, { ...shown, position: 5 })).toBe("QUEUED");
  expect(await found(queued.id)).toMatchObject({ proven: true, settlement: { position: 5 } });

  const key = keys.paidTransfer(first.terms.network, shown.transaction, 3);
  expect(await payments.redis.client.pttl(key)).toBe(-1);
  await journal.markEnded(await found(first.id));
  expect(Math.round((await payments.redis.client.pttl(key)) / DAY_MS)).toBe(30);
});

test("a search of the chain continues after the last block without a use, and revives no payment that is gone", async () => {
  const { journal } = payments.gateway;
  const id = await payments.claim({ payer: PAYER });
  await journal.markSearched(id, 12n);
  expect((await found(id)).searched).toBe(12n);
  await payments.redis.client.del(keys.payment(id));
  await journal.markSearched(id, 13n);
  expect(await payments.redis.client.exists(keys.payment(id))).toBe(0);
});
