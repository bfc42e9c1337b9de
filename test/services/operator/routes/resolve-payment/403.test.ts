import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });

test("a viewer decides nothing about money: 403", async () => {
  const id = await payments.claimForReview();
  const { post } = await fixture.start();
  const decision = { verdict: "void", reason: "x" };
  const refused = await post(`/api/v1/payments/${id}/resolve`, decision, { as: "viewer" });
  expect(refusalOf(refused)).toEqual([403, "operator.forbidden"]);
  expect((await payments.gateway.journal.find(id))?.state).toBe("REVIEW");
});
