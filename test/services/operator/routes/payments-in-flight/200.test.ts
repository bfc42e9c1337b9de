import { expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });

test("payments in flight are those that settle, and not those whose call is in the queue or that an operator has to decide", async () => {
  const settling = await payments.claim();
  await payments.buy();
  await payments.claimForReview();
  const { get } = await fixture.start();
  const answer = await get("/api/v1/payments/in-flight", { as: "viewer" });
  expect([answer.status, answer.json()]).toEqual([200, { call_ids: [settling] }]);
});
