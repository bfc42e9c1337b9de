import { expect, test } from "vitest";
import { registerGauges } from "../../../services/x402-gateway/metrics.ts";
import { createMetrics } from "../../../shared/platform/metrics/metrics.ts";
import { usePayments } from "../../fixtures/payments.ts";
import { keys } from "../../fixtures/redis.ts";
import { partitionsOver } from "../../support/partitions.ts";

const payments = usePayments();

const PAYER = `0x${"22".repeat(20)}`;
const SETTLEMENT = {
  transaction: `0x${"ab".repeat(32)}`,
  network: "eip155:84532",
  payer: PAYER,
  by: "operator",
} as const;

/** Reads from the metrics the number of payments in this state in all partitions, and the age of the oldest in seconds. */
function gaugesIn(text: string, state: string) {
  const valuesOf = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}\\{state="${state}",partition="\\d+"\\} (\\S+)$`, "gm"))].map(
      ([, value]) => Number(value),
    );
  const payments = valuesOf("postern_payments");
  return {
    payments: payments.length === 0 ? undefined : payments.reduce((sum, each) => sum + each),
    age: Math.max(...valuesOf("postern_payment_unresolved_age_seconds")),
  };
}

test("the gauges count unresolved payments by state, with the age of the oldest, until they are resolved", async () => {
  const { journal, gateway, redis } = payments.gateway;
  const metrics = createMetrics();
  registerGauges(metrics, { current: gateway }, partitionsOver(redis));
  const gauges = async () => {
    const text = await metrics.text();
    const [settling, review] = [gaugesIn(text, "settling"), gaugesIn(text, "review")];
    const hundreds = ({ payments, age }: typeof review) => [payments, Math.floor(age / 100)];
    return { settling: hundreds(settling), review: hundreds(review) };
  };
  const agoMs = (ms: number) => Date.now() - ms;
  expect(await gauges()).toEqual({ settling: [0, 0], review: [0, 0] });

  const oldest = await payments.claim({ payer: PAYER, now: agoMs(950_000) });
  const reviewed = await payments.claim({ payer: PAYER, now: agoMs(550_000) });
  expect(await gauges()).toEqual({ settling: [2, 9], review: [0, 0] });

  await journal.markForReview(reviewed, "the node lacks logs");
  expect(await gauges()).toEqual({ settling: [1, 9], review: [1, 5] });

  const found = await journal.find(oldest);
  if (found === undefined) throw new Error("it is not there");
  await journal.markVoid(found, { reason: "it expired" }, { now: Date.now() });
  expect(await gauges()).toEqual({ settling: [0, 0], review: [1, 5] });

  const inReview = await journal.find(reviewed);
  if (inReview === undefined) throw new Error("it is not there");
  const settled = { settlement: SETTLEMENT, proven: false };
  await journal.enqueueSettled(inReview, settled, { dueInMs: 0, from: ["REVIEW"] });
  expect(await gauges()).toEqual({ settling: [0, 0], review: [0, 0] });
  expect((await journal.find(reviewed))?.state).toBe("QUEUED");
});

test("the gauges count the disputed payments that no operator has acknowledged, with the time since the oldest dispute", async () => {
  const { journal, gateway, redis } = payments.gateway;
  const metrics = createMetrics();
  registerGauges(metrics, { current: gateway }, partitionsOver(redis));
  const disputed = async () => {
    const { payments, age } = gaugesIn(await metrics.text(), "disputed");
    return [payments, Math.floor(age)];
  };
  expect(await disputed()).toEqual([0, 0]);
  const id = await payments.buy();
  await journal.markDisputed(id, "the chain says: expired");
  await redis.zadd(keys.paymentsDisputed, "XX", Date.now() - 90_500, id);
  expect(await disputed()).toEqual([1, 90]);
  const act = {
    at: 1,
    action: "acknowledge",
    callId: id,
    by: "me",
    selection: "by id",
    reason: "seen",
  } as const;
  expect(await journal.acknowledge(id, { by: "me", reason: "seen" }, act)).toBe(true);
  expect(await disputed()).toEqual([0, 0]);
});
