import { beforeEach, expect, test } from "vitest";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Payment } from "../../../shared/payments/payment.ts";
import { createRefunds } from "../../../shared/payments/refunds.ts";
import { createReadSeries } from "../../../shared/telemetry/series/read.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { auditOf } from "../../services/console/audit-of.ts";
import { claimPayment, dropOf, queuePayment } from "../../support/made-payment.ts";

const redis = useRedis();
beforeEach(() => redis.client.flushdb());

const TERMS = { network: "eip155:1", asset: `0x${"a".repeat(40)}` };
const EXPORT = `r_${"0".repeat(32)}`;
/** A text with half of a surrogate pair. JSON.stringify writes it as an escape, which Redis' cjson refuses. */
const HALF = "gone \ud83d";
const journal = () => new PaymentJournal(redis.partition);

async function found(id: string): Promise<Payment> {
  const payment = await journal().find(id);
  if (payment === undefined) throw new Error(`${id} is not there`);
  return payment;
}

const statesOf = (ids: readonly string[]) =>
  Promise.all(ids.map(async (id) => (await journal().find(id))?.state));

/** Makes a confirmed payment whose call was discarded. */
async function refundable(): Promise<string> {
  const id = await queuePayment(journal(), TERMS, true);
  await redis.client.hset(keys.record(id), "st", "DISCARDED");
  return id;
}

async function exportOf(ids: readonly string[], reason = "gone") {
  const cases = await Promise.all(
    ids.map(async (id) => {
      const payment = await found(id);
      const { asset, symbol, payer, amount } = payment.terms;
      return { payment, row: { call: id, asset, symbol, decimals: 6, payer, amount } };
    }),
  );
  const line = { at: 1, action: "refund", by: "me", selection: "a test", reason } as const;
  const made = { id: EXPORT, at: 1, by: "me", network: TERMS.network, block: 1n, effectUnknown: true };
  return createRefunds(redis.partition).export({ ...made, cases, lineOf: (callId) => ({ ...line, callId }) });
}

test("an export whose reason contains half a surrogate pair is complete, and its audit lines have U+FFFD in its place", async () => {
  const ids = [await refundable(), await refundable()];
  expect((await exportOf(ids, HALF))?.rows.map(({ call }) => call)).toEqual(ids);
  expect(await statesOf(ids)).toEqual(["REFUND_PENDING", "REFUND_PENDING"]);
  const lines = ids.map((call_id) => ({ action: "refund", call_id, reason: "gone \ufffd" }));
  expect(await auditOf(redis)).toMatchObject(lines);
});

test("a payment that an operator settles for a reason with half a surrogate pair runs, or is refunded if it was dropped", async () => {
  const [kept, dropped] = [await claimPayment(journal(), TERMS), await claimPayment(journal(), TERMS)];
  await journal().drop(dropped, { by: "me", reason: HALF }, dropOf(dropped, HALF));
  for (const id of [kept, dropped]) {
    const payment = await found(id);
    const { network, payer } = payment.terms;
    const decided = { by: "me", reason: HALF };
    const settlement = {
      transaction: `0x${"b".repeat(64)}`,
      network,
      payer,
      by: "operator",
      decided,
    } as const;
    await journal().enqueueSettled(payment, { settlement, proven: false }, { dueInMs: 0 });
  }
  expect(await statesOf([kept, dropped])).toEqual(["QUEUED", "DISCARDED"]);
  expect((await found(kept)).decided?.reason).toBe("gone \ufffd");
  expect((await exportOf([dropped]))?.rows).toHaveLength(1);
});

test("an export moves no payment if Redis cannot read one of them", async () => {
  const ids = [await refundable(), await refundable()];
  const unreadable = '{"by":"facilitator","transaction":"\\ud83d"}';
  await redis.client.hset(keys.payment(ids[1] ?? ""), "settlement", unreadable);
  await expect(exportOf(ids)).rejects.toThrow("invalid unicode escape");
  expect(await statesOf(ids)).toEqual(["DISCARDED", "DISCARDED"]);
  expect(await redis.client.exists(keys.refundsPending, keys.refundRows(EXPORT), keys.audit("money"))).toBe(
    0,
  );
});

test("a payment that an export names twice is refunded once", async () => {
  const id = await refundable();
  expect((await exportOf([id, id]))?.rows).toHaveLength(1);
  expect(await auditOf(redis)).toHaveLength(1);
  expect(await redis.client.hget(keys.refund(EXPORT), "open")).toBe("1");
});

test("a refund counts on the day on which it was seen, exactly and once, and one that closes no case does not", async () => {
  const [id, other, late] = [await refundable(), await refundable(), await refundable()];
  await exportOf([id, other, late]);
  await redis.client.hset(keys.record(late), "late", 1);
  const refunds = createRefunds(redis.partition);
  const transfer = (digit: string) => ({
    ...{ transaction: `0x${digit.repeat(64)}`, position: 1, block: "2", from: `0x${"5".repeat(40)}` },
  });
  const at = (time: number) =>
    ({ at: time, action: "close_refund", callId: id, by: "me", selection: "a test" }) as const;
  const pending = await found(id);
  const day = Date.UTC(2026, 2, 1);
  expect(await refunds.close(pending, transfer("c"), at(day))).toBe("closed");
  expect(await refunds.close(pending, transfer("c"), at(day))).toBe("left");
  expect(await refunds.close(await found(other), transfer("c"), at(day))).toBe("taken");
  expect(await refunds.close(await found(late), transfer("d"), at(day))).toBe("left");
  expect(await refunds.close(await found(other), transfer("e"), at(day + 86_400_000))).toBe("closed");

  const { earned } = createReadSeries(redis.partition, () => day + 90_000_000);
  const refund = {
    ...TERMS,
    job: "1/7",
    payments: 0,
    amount: 0n,
    disputes: 0,
    disputed: 0n,
    refunds: 1,
    refunded: 3_200_000n,
  };
  expect(await earned(3)).toEqual([
    { day: "2026-03-02", ...refund },
    { day: "2026-03-01", ...refund },
  ]);
});

test("a partition whose part of an export was read as empty adds no case to it, and one with a part keeps it", async () => {
  const refunds = createRefunds(redis.partition);
  const ids = [await refundable()];
  expect(await refunds.seal(EXPORT)).toBeUndefined();
  expect([await exportOf(ids), await statesOf(ids)]).toEqual([undefined, ["DISCARDED"]]);
  expect(await redis.client.pttl(keys.refund(EXPORT))).toBeGreaterThan(0);

  await redis.client.flushdb();
  const moved = await exportOf([await refundable()]);
  expect(await refunds.seal(EXPORT)).toMatchObject({ rows: moved?.rows });
  expect(await redis.client.pttl(keys.refund(EXPORT))).toBe(-1);
});
