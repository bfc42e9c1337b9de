import { expect, test } from "vitest";
import { OverviewView } from "../../../../../shared/console/overview/overview.ts";
import type { RefundTotals } from "../../../../../shared/console/overview/refund-totals.ts";
import { createPaymentList } from "../../../../../shared/payments/list.ts";
import { inPages } from "../../../../../shared/redis/pages.ts";
import type { TestOperator } from "../../../../fixtures/console.ts";
import { useOperator } from "../../../../fixtures/console.ts";
import { usePayments } from "../../../../fixtures/payments.ts";
import { keys } from "../../../../fixtures/redis.ts";
import { onlyInLongRun } from "../../../../support/long-run.ts";
import { configureRefunds, refundable } from "../../refundable.ts";

const payments = usePayments();
const { redis } = payments;
const fixture = useOperator({ redis });

const start = () => {
  configureRefunds(payments);
  return fixture.start({ configDir: payments.postern.configDir });
};

/** Waits for these totals. For a moment after a reading, all clients get the same totals. */
async function untilTotals({ get }: TestOperator, wanted: Record<string, object>): Promise<RefundTotals> {
  let seen: RefundTotals | undefined;
  const read = async () => {
    const answer = await get("/api/v1/overview", { as: "viewer" });
    seen = OverviewView.parse(answer.json()).payments.refunds;
    return seen;
  };
  await expect.poll(read, { interval: 200 }).toMatchObject(wanted);
  return seen as unknown as RefundTotals;
}

/** Returns the total of `calls` payments of 3.2 USDC. */
function totalOf(calls: number) {
  const { network, token } = payments.devnet;
  const usdc = { network, asset: token.toLowerCase(), symbol: "USDC", decimals: 6 };
  const amounts = calls === 0 ? [] : [{ ...usdc, amount: String(calls * 3_200_000) }];
  return { confirmed: { calls, amounts }, is_whole: true };
}

test("the totals add up payments for calls that were not done: failed, discarded or forgotten ones, and those with an exported refund", async () => {
  const service = await start();
  await untilTotals(service, { failed: totalOf(0), due: totalOf(0), exported: totalOf(0) });
  const [, discarded = "", forgotten = "", exported = "", later = ""] = await refundable(payments, 5);
  await untilTotals(service, { failed: totalOf(5), due: totalOf(0), exported: totalOf(0) });
  await service.post(`/api/v1/failed/${discarded}/discard`, { reason: "x" });
  await service.post(`/api/v1/failed/${later}/discard`, { reason: "x" });
  await service.post(`/api/v1/calls/${forgotten}/forget`, { reason: "x" });
  await untilTotals(service, { failed: totalOf(2), due: totalOf(3), exported: totalOf(0) });
  const exporting = { call_ids: [exported, later], reason: "x" };
  expect((await service.post("/api/v1/payments/refunds/exports", exporting)).status).toBe(201);
  await untilTotals(service, { failed: totalOf(1), due: totalOf(2), exported: totalOf(2) });
  expect(await redis.client.zrange(keys.paymentsDiscarded, "0", "-1")).toEqual([discarded, forgotten]);
});

test("money that arrives for a dropped payment is a due refund, and contradicted payments are counted separately", async () => {
  const { journal } = payments.gateway;
  const [id, failed = ""] = [await payments.claim(), ...(await refundable(payments))];
  await journal.markDisputed(failed, "the chain shows no transfer any more");
  const service = await start();
  expect(
    (await service.post(`/api/v1/payments/${id}/resolve`, { verdict: "dropped", reason: "x" })).status,
  ).toBe(200);
  const payment = await journal.find(id);
  if (payment === undefined) throw new Error("no payment");
  const { network, payer } = payment.terms;
  const settlement = { transaction: `0x${"1".repeat(64)}`, network, payer, by: "facilitator" } as const;
  await journal.enqueueSettled(payment, { settlement, proven: true }, { dueInMs: 3_600_000 });
  const { failed: seen } = await untilTotals(service, { due: totalOf(1) });
  expect(seen).toMatchObject({ confirmed: { calls: 0 }, unconfirmed: { calls: 1 } });
});

onlyInLongRun(() => {
  test("a discarded call that has expired is no longer a refund, and leaves the list with its payment", async () => {
    const [id = ""] = await refundable(payments);
    const service = await start();
    await service.post(`/api/v1/failed/${id}/discard`, { reason: "x" });
    await untilTotals(service, { due: totalOf(1) });
    await redis.client.del(keys.record(id), keys.payment(id));
    await untilTotals(service, { due: totalOf(0) });
    expect(await redis.client.exists(keys.paymentsDiscarded)).toBe(0);
    await redis.client.zadd(keys.paymentsDiscarded, 1, id);
    await redis.client.zadd(keys.payments, 1, id);
    await createPaymentList(redis.partition).prune(0);
    expect(await redis.client.exists(keys.paymentsDiscarded, keys.payments)).toBe(0);
  });

  test("the totals of more refunds than one count reads are marked as incomplete", async () => {
    const [id = ""] = await refundable(payments);
    const service = await start();
    await service.post(`/api/v1/failed/${id}/discard`, { reason: "x" });
    const [record, payment] = await Promise.all([
      redis.client.hgetall(keys.record(id)),
      redis.client.hgetall(keys.payment(id)),
    ]);
    for (const big of ["call", "request"]) delete payment[big];
    const copies = Array.from({ length: 10_000 }, (_, i) => `c_${String(i).padStart(32, "0")}`);
    for await (const some of inPages(copies, 500))
      await Promise.all(
        some.flatMap((each) => [
          redis.client.hset(keys.record(each), record),
          redis.client.hset(keys.payment(each), payment),
          redis.client.zadd(keys.paymentsDiscarded, Date.now(), each),
        ]),
      );
    const { due } = await untilTotals(service, { due: { is_whole: false } });
    expect(due.confirmed).toMatchObject({ calls: 10_000, amounts: [{ amount: "32000000000" }] });
  });
});
