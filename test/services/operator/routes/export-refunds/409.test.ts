import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";
import { keys } from "../../../../fixtures/redis.ts";
import { configureRefunds, refundable } from "../../refundable.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });

async function exportOf(ids: readonly string[]) {
  const { post } = await fixture.start({ configDir: payments.postern.configDir });
  return post("/api/v1/payments/refunds/exports", { call_ids: ids, reason: "x" });
}

test("what is not to be paid back is not exported, and neither is what nobody could see paid back: 409", async () => {
  configureRefunds(payments);
  const settling = await payments.claim();
  expect(refusalOf(await exportOf([settling]))).toEqual([409, "payment.undecidable"]);
  const [failed = ""] = await refundable(payments);
  configureRefunds(payments, { refund_from: [] });
  const refused = await exportOf([failed]);
  expect(refusalOf(refused)).toEqual([409, "token.unconfigured"]);
  expect(refused.json()["detail"]).toMatch(/has no refund_from: .*; nothing was exported$/);
  expect(await payments.redis.client.exists(keys.refundsPending)).toBe(0);
});
