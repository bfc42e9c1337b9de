import { expect, test } from "vitest";
import { OverviewView } from "../../../../../shared/console/overview/overview.ts";
import { createPaymentList } from "../../../../../shared/payments/list.ts";
import { partitionOf } from "../../../../../shared/redis/partition.ts";
import { useOperator } from "../../../../fixtures/console.ts";
import { usePayments } from "../../../../fixtures/payments.ts";
import { keys } from "../../../../fixtures/redis.ts";

const payments = usePayments();
const operator = useOperator({ redis: payments.redis });

const NONE = { count: 0, oldest_at: null };

async function started() {
  const { get, post } = await operator.start({ configDir: payments.postern.configDir });
  const disputed = async () =>
    OverviewView.parse((await get("/api/v1/overview", { as: "viewer" })).json()).payments.disputed;
  return { post, disputed };
}

test("the overview counts disputed payments from the first dispute until an operator acknowledges them", async () => {
  const { post, disputed } = await started();
  expect(await disputed()).toEqual(NONE);
  const { journal } = payments.gateway;
  const [first, second] = [await payments.buy(), await payments.buy()];
  await journal.markDisputed(first, "the chain says: expired");
  const { count, oldest_at } = await disputed();
  expect([count, Math.abs(Date.now() - Date.parse(String(oldest_at))) < 10_000]).toEqual([1, true]);
  await journal.markDisputed(second, "the chain says: expired");
  // Another gateway finds the same contradiction.
  await journal.markDisputed(first, "the chain says: expired");
  expect(await disputed()).toEqual({ count: 2, oldest_at });
  const acknowledge = (id: string) =>
    post(`/api/v1/payments/${id}/resolve`, { verdict: "acknowledged", reason: "seen" });
  expect((await acknowledge(first)).status).toBe(200);
  expect((await disputed()).count).toBe(1);
  await journal.markDisputed(first, "the chain says: expired");
  expect((await disputed()).count).toBe(1);
  expect((await acknowledge(second)).status).toBe(200);
  expect(await disputed()).toEqual(NONE);
});

test("a payment that an operator settled, or that does not count as paid, is not counted as disputed", async () => {
  const { disputed } = await started();
  const { journal } = payments.gateway;
  const settled = await payments.claimForReview();
  const payment = await journal.find(settled);
  if (payment === undefined) throw new Error("it is not there");
  const { network, payer } = payment.terms;
  const settlement = { transaction: `0x${"ab".repeat(32)}`, network, payer, by: "operator" } as const;
  const from = { dueInMs: 3_600_000, from: ["REVIEW"] } as const;
  await journal.enqueueSettled(payment, { settlement, proven: false }, from);
  const [open, review] = [await payments.claim(), await payments.claimForReview()];
  for (const id of [settled, open, review, `c_${"0".repeat(32)}`])
    await journal.markDisputed(id, "the chain says: expired");
  expect(await disputed()).toEqual(NONE);
  expect((await journal.find(review))?.reason).toBe("the node lacks logs");
  expect((await journal.find(settled))?.reason).toBe("the chain says: expired");
});

test("a disputed payment that Redis has lost is counted until the list is pruned or the payment is read", async () => {
  const { disputed } = await started();
  const { journal, redis } = payments.gateway;
  const list = createPaymentList(partitionOf(redis));
  for (const prune of [
    () => list.prune(0),
    (id: string) => list.read([id]),
    (id: string) => journal.forget(id),
  ]) {
    const id = await payments.buy();
    await journal.markDisputed(id, "the chain says: expired");
    await redis.del(keys.record(id), keys.payment(id));
    expect((await disputed()).count).toBe(1);
    await prune(id);
    expect(await disputed()).toEqual(NONE);
  }
});
