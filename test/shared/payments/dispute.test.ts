import { beforeEach, expect, test } from "vitest";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import { createReadSeries } from "../../../shared/telemetry/series/read.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { claimPayment, queuePayment } from "../../support/made-payment.ts";

const redis = useRedis();
beforeEach(() => redis.client.flushdb());

const TERMS = { network: "eip155:1", asset: `0x${"a".repeat(40)}` };
const WHY = "the chain says: expired";
const DAY = Date.UTC(2026, 2, 1);
const journal = () => new PaymentJournal(redis.partition);
const earned = (days: number) => createReadSeries(redis.partition, () => DAY + 90_000_000).earned(days);

const settledAt = (id: string, at: number) => redis.client.hset(keys.payment(id), "settled_at", at);

test("a disputed payment counts once, on the day on which it was settled, also after it is acknowledged", async () => {
  const [first, second] = [await queuePayment(journal(), TERMS), await queuePayment(journal(), TERMS)];
  await settledAt(first, DAY);
  await settledAt(second, DAY + 86_400_000);
  for (const id of [first, first, second]) await journal().markDisputed(id, WHY);
  const act = { at: 1, action: "acknowledge", callId: first, by: "me", selection: "by id" } as const;
  expect(await journal().acknowledge(first, { by: "me", reason: "seen" }, act)).toBe(true);
  await journal().markDisputed(first, WHY);
  const none = { payments: 0, amount: 0n, refunds: 0, refunded: 0n };
  const disputed = { ...TERMS, job: "1/7", ...none, disputes: 1, disputed: 3_200_000n };
  expect(await earned(3)).toEqual([
    { day: "2026-03-02", ...disputed },
    { day: "2026-03-01", ...disputed },
  ]);
});

test("a payment that does not count as paid, that an operator settled, or whose terms cannot be read is not counted as disputed", async () => {
  const [open, byOperator, broken] = [
    await claimPayment(journal(), TERMS),
    await queuePayment(journal(), TERMS),
    await queuePayment(journal(), TERMS),
  ];
  await redis.client.hset(keys.payment(byOperator), "settlement", '{"by":"operator"}');
  await redis.client.hset(keys.payment(broken), "terms", "{}");
  for (const id of [open, byOperator, broken]) {
    await settledAt(id, DAY);
    await journal().markDisputed(id, WHY);
  }
  expect(await redis.client.zrange(keys.paymentsDisputed, "0", "-1")).toEqual([broken]);
  expect(await earned(3)).toEqual([]);
});
