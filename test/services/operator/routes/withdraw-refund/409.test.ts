import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });

test("a payment without a pending refund has none to be withdrawn: 409, which says how it stands", async () => {
  const id = await payments.claim();
  const { post } = await fixture.start();
  const refused = await post(`/api/v1/payments/${id}/withdraw-refund`, { reason: "x" });
  expect(refusalOf(refused)).toEqual([409, "payment.undecidable"]);
  expect(refused.json()["detail"]).toContain(`${id} is settling: only a pending refund`);
});
