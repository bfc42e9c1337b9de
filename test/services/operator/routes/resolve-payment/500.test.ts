import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";
import { paidInReview } from "./decide.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });

test("without the tokens' configuration no chain can be asked, and nothing is settled: 500", async () => {
  const { id, transaction } = await paidInReview(payments);
  const { post } = await fixture.start();
  const decision = { verdict: "settled", transaction, reason: "x" };
  const refused = await post(`/api/v1/payments/${id}/resolve`, decision);
  expect(refusalOf(refused)).toEqual([500, "start.config_invalid"]);
  expect((await payments.gateway.journal.find(id))?.state).toBe("REVIEW");
});
